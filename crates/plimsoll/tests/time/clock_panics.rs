//! What panics on the clock's way ends there: other waiters and other limiters are served all the same.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{
    Acquire, Clock, Concurrency, Gate, ManualClock, Moment, Queue, Quota, Refusal, Rule,
    TokenBucket, Unpacked,
};

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[derive(Default)]
struct Counts(AtomicU64);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> bool {
    Pin::new(future)
        .poll(&mut Context::from_waker(waker))
        .is_ready()
}

/// A bucket that is empty, with a queue.
fn empty(clock: Clock, period: Duration) -> Gate<TokenBucket> {
    let rule = TokenBucket::greedy(Quota::new(1, period)).initial(0);
    Gate::builder(rule)
        .queue(Queue::fifo(100))
        .clock(clock)
        .build()
}

/// Whether `work`, on a thread of its own, comes to an end.
fn ends(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    is_done.recv_timeout(LONG).is_ok()
}

fn wait_for_one(clock: Clock) -> bool {
    ends(move || {
        let gate = empty(clock, Duration::from_millis(1));
        let permit = gate.acquire_blocking(1);
        permit.expect("it is served in time").forget();
    })
}

/// The panic ended the clock's thread, and with it the time of the whole process.
#[test]
fn a_waker_that_panics_does_not_stop_the_machines_clock() {
    for clock in [Clock::system(), Clock::precise()] {
        let gate = empty(clock.clone(), Duration::from_millis(2));
        let mut broken = gate.acquire(1);
        assert!(!poll_with(&mut broken, &Waker::from(Arc::new(Panics))));
        // Served behind the broken one, so its alarm comes after the panic.
        let same = gate.clone();
        assert!(ends(move || {
            same.acquire_blocking(1).expect("it is served").forget();
        }));
        assert!(wait_for_one(clock.clone()));
        assert!(poll_with(&mut broken, Waker::noop()));
    }
}

#[test]
fn a_sleeper_whose_waker_panics_does_not_stop_the_machines_clock() {
    let clock = Clock::system();
    let mut sleep = clock.sleep_until(clock.precise_now().plus(Duration::from_millis(2)));
    assert!(!poll_with(&mut sleep, &Waker::from(Arc::new(Panics))));
    for _ in 0..3 {
        assert!(wait_for_one(clock.clone()));
    }
}

/// The wakers behind the one that panicked were dropped unwoken, with grants that nobody would ever read.
#[test]
fn everybody_is_woken_who_is_served_together_with_a_waker_that_panics() {
    // Few, and more than are served in one go.
    for crowd in [3_u64, 10, 100] {
        for broken in [0, crowd / 2, crowd - 1] {
            let time = ManualClock::new();
            let gate = Gate::builder(Concurrency::new(crowd))
                .queue(Queue::fifo(1000))
                .clock(time.clock())
                .build();
            let held = gate.try_acquire(crowd).unwrap();
            let counts = Arc::new(Counts::default());
            let mut waiting: Vec<Acquire<'_>> = (0..crowd).map(|_| gate.acquire(1)).collect();
            for (number, future) in (0..).zip(&mut waiting) {
                let waker = if number == broken {
                    Waker::from(Arc::new(Panics))
                } else {
                    Waker::from(Arc::clone(&counts))
                };
                assert!(!poll_with(future, &waker));
            }
            // Whoever gives back is not to blame: an unwinding here would take along what it does next.
            drop(held);
            assert_eq!(counts.0.load(Ordering::Acquire), crowd - 1);
            assert!(waiting.iter_mut().all(|one| poll_with(one, Waker::noop())));
            // Each has read its answer and given it back.
            assert_eq!(gate.snapshot().in_use(), 0);
        }
    }
}

/// Two panics at once end the process.
#[test]
fn a_permit_that_goes_back_in_a_panic_may_wake_one_who_panics() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .build();
    let held = gate.try_acquire(1).unwrap();
    let mut broken = gate.acquire(1);
    assert!(!poll_with(&mut broken, &Waker::from(Arc::new(Panics))));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _held = held;
        panic!("the work panics");
    }));
    assert!(panicked.is_err());
    assert!(poll_with(&mut broken, Waker::noop()));
}

#[test]
fn a_clock_moved_by_hand_arrives_although_a_waker_panics_on_the_way() {
    let time = ManualClock::new();
    let counts = Arc::new(Counts::default());
    let gates: Vec<_> = (1..=3)
        .map(|nanos| empty(time.clock(), Duration::from_nanos(nanos)))
        .collect();
    let mut waiting: Vec<_> = gates.iter().map(|gate| gate.acquire(1)).collect();
    assert!(!poll_with(&mut waiting[0], &Waker::from(Arc::new(Panics))));
    for future in &mut waiting[1..] {
        assert!(!poll_with(future, &Waker::from(Arc::clone(&counts))));
    }
    time.advance(Duration::from_secs(1));
    assert_eq!(time.now(), Moment::from_nanos(1_000_000_000));
    assert_eq!(counts.0.load(Ordering::Acquire), 2);
    assert!(waiting.iter_mut().all(|one| poll_with(one, Waker::noop())));
}

/// A bucket that panics on one number.
#[derive(Debug)]
struct Superstitious {
    bucket: TokenBucket,
    /// Panics when it would grant this.
    unlucky: u64,
}

impl Rule for Superstitious {
    type State = <TokenBucket as Rule>::State;
    type Fast = Unpacked;

    fn limit(&self) -> u64 {
        self.bucket.limit()
    }

    fn fresh(&self, now: Moment) -> Self::State {
        self.bucket.fresh(now)
    }

    fn take(&self, state: &mut Self::State, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.bucket.take(state, now, cost)?;
        assert_ne!(cost, self.unlucky, "a rule that panics");
        Ok(())
    }

    fn available(&self, state: &Self::State, now: Moment) -> u64 {
        self.bucket.available(state, now)
    }

    fn refund(&self, state: &mut Self::State, now: Moment, taken: Moment, cost: u64) {
        self.bucket.refund(state, now, taken, cost);
    }

    fn full_at(&self, state: &Self::State, now: Moment) -> Option<Moment> {
        self.bucket.full_at(state, now)
    }
}

#[test]
fn a_rule_that_panics_does_not_stop_the_machines_clock() {
    let rule = Superstitious {
        bucket: TokenBucket::greedy(Quota::per_second(1000))
            .burst(20)
            .initial(0),
        unlucky: 13,
    };
    let gate = Gate::builder(rule).queue(Queue::fifo(100)).build();
    let mut broken = gate.acquire(13);
    assert!(!poll_with(&mut broken, Waker::noop()));
    for _ in 0..3 {
        assert!(wait_for_one(Clock::system()));
        assert!(ends(|| thread::park_timeout(Duration::from_millis(10))));
    }
}

/// The state was lost with the panic and began anew: whatever was used was free again.
#[test]
fn a_rule_that_panics_does_not_forget_what_is_used() {
    let time = ManualClock::new();
    let rule = Superstitious {
        bucket: TokenBucket::greedy(Quota::per_second(20)),
        unlucky: 3,
    };
    let gate = Gate::builder(rule)
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    gate.try_acquire(17).unwrap().forget();
    // While somebody listens, everything happens behind the lock.
    let _events = gate.subscribe(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(gate.try_acquire(3))));
    assert!(panicked.is_err());
    assert!(gate.snapshot().available() <= 3);
    assert!(gate.try_acquire(4).is_err());
}

/// A panic while everybody is served lost those who had been served before it, and the limit that had been set.
#[test]
fn a_rule_that_panics_loses_neither_who_is_served_before_nor_a_changed_limit() {
    let time = ManualClock::new();
    let rule = |limit, unlucky| Superstitious {
        bucket: TokenBucket::greedy(Quota::per_second(limit)).initial(0),
        unlucky,
    };
    let gate = Gate::builder(rule(20, 99))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    gate.replace(rule(10, 5), plimsoll::Carry::AsIs);
    let counts = Arc::new(Counts::default());
    let mut first = gate.acquire(2);
    let mut unlucky = gate.acquire(5);
    assert!(!poll_with(&mut first, &Waker::from(Arc::clone(&counts))));
    assert!(!poll_with(&mut unlucky, Waker::noop()));
    // All at once, on the way of another.
    let moved = catch_unwind(AssertUnwindSafe(|| time.advance(Duration::from_secs(1))));
    assert!(moved.is_err());
    assert_eq!(counts.0.load(Ordering::Acquire), 1);
    assert!(poll_with(&mut first, Waker::noop()));
    assert_eq!(gate.snapshot().limit(), 10);
    let left = catch_unwind(AssertUnwindSafe(|| drop(unlucky)));
    assert!(left.is_ok());
    let later = catch_unwind(AssertUnwindSafe(|| time.advance(Duration::from_secs(1))));
    assert!(later.is_ok());
    assert!(gate.try_acquire(10).is_ok());
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_waker_that_panics_does_not_stop_tokios_clock() {
    let clock = Clock::tokio();
    let gate = empty(clock.clone(), Duration::from_millis(2));
    let mut broken = gate.acquire(1);
    assert!(!poll_with(&mut broken, &Waker::from(Arc::new(Panics))));
    let other = empty(clock, Duration::from_millis(20));
    for gate in [gate.clone(), other] {
        let served = tokio::time::timeout(LONG, gate.acquire(1)).await;
        served.expect("it is served in time").unwrap().forget();
    }
}
