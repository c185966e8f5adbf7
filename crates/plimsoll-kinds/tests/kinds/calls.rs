//! Limited calls: what is held is given back when the call returns, fails, panics or is cancelled.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use std::{io, thread};

use crate::poll::poll;
use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{
    Concurrency, Demand, Denied, Gate, ManualClock, Outcome, Queue, Reason, TokenBucket,
};
use plimsoll_kinds::{AnyLimiter, Basic, Demands, LimitCall, Provider, Weight};

const COUNT: Weight = Weight::REQUEST_COUNT;
const MEMORY: Weight = Weight::MEMORY_SIZE;
const BOTH: [(Weight, u64); 2] = [(COUNT, 1), (MEMORY, 3)];
const ONE: [(Weight, u64); 1] = [(MEMORY, 3)];

/// Remembers whether each of what it was told of was an overload.
#[derive(Debug)]
struct Heard(Arc<Mutex<Vec<bool>>>);

impl Limit for Heard {
    fn limit(&self) -> u64 {
        10
    }

    fn sample(&mut self, sample: &Sample) {
        self.0.lock().unwrap().push(sample.overload);
    }
}

struct Place {
    provider: Provider,
    slots: Gate<Concurrency>,
    learning: Gate<Adaptive<Heard>>,
    heard: Arc<Mutex<Vec<bool>>>,
    time: ManualClock,
}

fn place() -> Place {
    let (time, heard) = (ManualClock::new(), Arc::default());
    let queue = Queue::fifo(10);
    let slots = Gate::builder(Concurrency::new(2))
        .name("slots")
        .queue(queue);
    let slots = slots.clock(time.clock()).build();
    let learning = Gate::builder(Adaptive::new(Heard(Arc::clone(&heard)))).queue(queue);
    let learning = learning.clock(time.clock()).build();
    let provider = Provider::builder()
        .limit(COUNT, slots.clone())
        .limit(MEMORY, learning.clone())
        .build()
        .unwrap();
    Place {
        provider,
        slots,
        learning,
        heard,
        time,
    }
}

impl Place {
    fn in_use(&self) -> (u64, u64) {
        (
            self.slots.snapshot().in_use(),
            self.learning.snapshot().in_use(),
        )
    }

    /// What was heard since this was asked last.
    fn heard(&self) -> Vec<bool> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

#[test]
fn a_call_holds_its_permits_while_it_runs() {
    let place = place();
    let seen = place
        .provider
        .limit_call(&BOTH, || Ok::<_, Denied>(place.in_use()));
    assert_eq!(seen, Ok((1, 3)));
    assert_eq!(place.in_use(), (0, 0));
    assert_eq!(place.heard(), [false], "a success");

    let seen = place
        .provider
        .limit_call(&ONE, || Ok::<_, Denied>(place.in_use()));
    assert_eq!(seen, Ok((0, 3)));
    assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![false]));
}

#[test]
fn an_error_gives_back_and_says_nothing_about_the_load() {
    let place = place();
    for costs in [&BOTH[..], &ONE[..]] {
        let failed: Result<(), Box<dyn std::error::Error>> = place
            .provider
            .limit_call(costs, || Err(io::Error::other("broken").into()));
        assert_eq!(failed.unwrap_err().to_string(), "broken");
        assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![]));

        let judged = place.provider.limit_call_with(
            costs,
            |status| {
                if *status == 503 {
                    Outcome::Overload
                } else {
                    Outcome::Success
                }
            },
            || 503,
        );
        assert_eq!(judged, Ok(503));
        assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![true]));
    }
}

#[test]
fn a_panic_gives_back() {
    let place = place();
    for costs in [&BOTH[..], &ONE[..]] {
        let call = || {
            place
                .provider
                .limit_call(costs, || -> Result<(), Denied> { panic!("oh") })
        };
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![]));
    }
    let call = || {
        place
            .slots
            .limit_call(1, || -> Result<(), Denied> { panic!("oh") })
    };
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    assert_eq!(place.in_use(), (0, 0));
}

#[test]
fn a_call_that_is_cancelled_gives_back() {
    let place = place();
    for costs in [&BOTH[..], &ONE[..]] {
        {
            let work = pending::<Result<(), Denied>>();
            let mut running = pin!(place.provider.limit_call_async(costs, work));
            assert_eq!(place.in_use(), (0, 0), "nothing before the first poll");
            assert!(poll(&mut running).is_pending());
            assert_eq!(place.learning.snapshot().in_use(), 3);
        }
        assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![]));
    }
    {
        let work = pending::<Result<(), Denied>>();
        let mut running = pin!(place.slots.limit_call_async(2, work));
        assert!(poll(&mut running).is_pending());
        assert_eq!(place.in_use(), (2, 0));
        let mut waiting = pin!(
            place
                .provider
                .limit_call_async(&BOTH, async { Ok::<_, Denied>(()) })
        );
        assert!(poll(&mut waiting).is_pending());
        assert_eq!(place.slots.snapshot().waiters(), 1);
    }
    assert_eq!(
        (place.in_use(), place.slots.snapshot().waiters()),
        ((0, 0), 0)
    );
}

#[tokio::test]
async fn an_asynchronous_call_is_waited_for_and_judged() {
    let place = place();
    let answer = place
        .provider
        .limit_call_async(&BOTH, async { Ok::<_, Denied>(7) })
        .await;
    assert_eq!((answer, place.heard()), (Ok(7), vec![false]));
    let failed = place
        .provider
        .limit_call_async(&BOTH, async { Err::<(), _>(Denied::new(Reason::Shed)) });
    assert_eq!(failed.await.unwrap_err().reason(), Reason::Shed);
    assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![]));
    let judged = place
        .provider
        .limit_call_async_with(&BOTH, |_| Outcome::Overload, async { 1 })
        .await;
    assert_eq!((judged, place.heard()), (Ok(1), vec![true]));

    // It can be spawned, panics there, and gives back.
    let provider = place.provider.clone();
    let task = tokio::spawn(async move {
        let work = async { panic!("oh") };
        provider
            .limit_call_async_with(&BOTH, |(): &()| Outcome::Success, work)
            .await
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!((place.in_use(), place.heard()), ((0, 0), vec![]));
}

#[test]
fn every_kind_limits_a_call() {
    let full = Basic::when("switch", || true);
    let refused = full.limit_call(|| Ok::<_, Denied>(())).unwrap_err();
    assert_eq!(refused.limiter(), Some("switch"));
    let limiters = [
        AnyLimiter::from(Basic::when("switch", || false)),
        Gate::new(TokenBucket::per_second(5)).into(),
        Gate::new(Concurrency::new(5)).into(),
    ];
    for limiter in limiters {
        assert_eq!(limiter.limit_call(5, || Ok::<_, Denied>(7)), Ok(7));
        let _answer = limiter.limit_call_with(1, |()| Outcome::Success, || ());
    }
    assert_eq!(
        Basic::when("switch", || false).limit_call(|| Ok::<_, Denied>(7)),
        Ok(7)
    );
}

#[test]
fn a_call_that_cannot_be_in_time_is_refused_at_once_and_does_not_run() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(10))
        .name("bytes")
        .queue(Queue::fifo(10));
    let gate = gate.clock(time.clock()).build();
    let provider = Provider::builder()
        .limit(MEMORY, gate.clone())
        .build()
        .unwrap();
    drop(gate.try_acquire(10).unwrap());
    let late = Duration::from_millis(299);
    let run = || -> Result<(), Denied> { panic!("it must not run") };
    let refusals = [
        provider.limit_call(Demands::of(&ONE).within(late), run),
        gate.limit_call(Demand::of(3).within(late), run),
    ];
    for refused in refusals {
        let denied = refused.unwrap_err();
        assert_eq!(
            (denied.reason(), denied.limiter()),
            (Reason::TimedOut, Some("bytes"))
        );
    }
    let waiting = provider.limit_call_async(Demands::of(&ONE).within(late), async { run() });
    assert!(matches!(poll(&mut pin!(waiting)), Poll::Ready(Err(_))));
}

#[test]
fn a_call_waits_for_its_permits() {
    let place = place();
    let held = place.slots.try_acquire(2).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let demands = Demands::of(&BOTH).within(Duration::from_secs(1));
            place
                .provider
                .limit_call(demands, || Ok::<_, Denied>(place.in_use()))
        });
        while place.slots.snapshot().waiters() == 0 {
            thread::yield_now();
        }
        assert_eq!(place.learning.snapshot().in_use(), 0);
        drop(held);
        assert_eq!(waiting.join().unwrap(), Ok((1, 3)));
    });
    assert_eq!(place.in_use(), (0, 0));
    place.time.advance(Duration::from_secs(1));
}
