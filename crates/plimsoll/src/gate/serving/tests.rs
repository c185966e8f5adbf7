//! Waiters that are served together, on a manual clock that behaves like the machine's.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;

use super::PATIENCE;
use crate::{Acquire, Demand, Gate, ManualClock, Moment, Queue, Quota, Reason, TokenBucket};

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Waits for a cost, for at most this many nanoseconds.
    Wait(u64, Option<u64>),
    /// Asks without waiting.
    Try(u64),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let within = proptest::option::weighted(0.3, 0..3_000_000_u64);
    let step = prop_oneof![
        6 => (1..4_u64, within).prop_map(|(cost, within)| Step::Wait(cost, within)),
        1 => (1..4_u64).prop_map(Step::Try),
        3 => (0..400_000_u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A bucket for 100 that is empty when it is new.
fn per_second(rate: u64) -> TokenBucket {
    TokenBucket::per_second(rate).burst(100).initial(0)
}

/// Buckets that are empty when they are new. Rates whose tokens do not come at whole nanoseconds lose a part of one when they are
/// served at the first whole nanosecond at which they are full, and refills of several tokens some of them.
fn rules() -> impl Strategy<Value = TokenBucket> {
    let greedy = (500..200_000_u64, 3..60_u64);
    let greedy = greedy.prop_map(|(rate, burst)| TokenBucket::per_second(rate).burst(burst));
    let interval = (1..9_u64, 5_000..2_000_000_u64, 3..60_u64);
    let interval = interval.prop_map(|(refill, nanos, burst)| {
        let quota = Quota::new(refill, Duration::from_nanos(nanos));
        TokenBucket::interval(quota).burst(burst)
    });
    prop_oneof![greedy, interval].prop_map(|rule| rule.initial(0))
}

/// A waiter, or its answer.
struct Waiter {
    joined: Moment,
    future: Option<Acquire<'static>>,
    answer: Option<Result<Moment, Reason>>,
}

/// A gate and all its waiters so far, in the order of arrival.
struct Side {
    time: ManualClock,
    gate: Gate<TokenBucket>,
    waiters: Vec<Waiter>,
    tried: Vec<bool>,
}

impl Side {
    fn new(time: ManualClock, rule: TokenBucket) -> Self {
        let gate = Gate::builder(rule)
            .queue(Queue::fifo(1_000))
            .clock(time.clock())
            .build();
        Self {
            time,
            gate,
            waiters: Vec::new(),
            tried: Vec::new(),
        }
    }

    fn wait(&mut self, demand: Demand) {
        self.waiters.push(Waiter {
            joined: self.time.now(),
            future: Some(self.gate.acquire_owned(demand)),
            answer: None,
        });
        self.read();
    }

    /// Lets all waiters read their answers; returns how many did.
    fn read(&mut self) -> usize {
        let mut read = 0;
        for waiter in &mut self.waiters {
            let Some(future) = &mut waiter.future else {
                continue;
            };
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(answer) = Pin::new(future).poll(&mut context) {
                let answer = answer.map(|permit| permit.granted_at());
                waiter.answer = Some(answer.map_err(|denied| denied.reason()));
                waiter.future = None;
                read += 1;
            }
        }
        read
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wait(cost, within) => {
                let mut demand = Demand::of(cost);
                if let Some(nanos) = within {
                    demand = demand.within(Duration::from_nanos(nanos));
                }
                self.wait(demand);
            }
            Step::Try(cost) => self.tried.push(self.gate.try_acquire(cost).is_ok()),
            Step::Pass(nanos) => self.time.advance(Duration::from_nanos(nanos)),
        }
        self.read();
    }
}

proptest! {
    /// Compared with a gate that serves each waiter at its moment: no waiter is served sooner, so no more is granted
    /// than the rule allows; the same waiters are served and the same time out; and no refill is lost, so that each
    /// waiter is served when it would have been there, or later by at most a third of the wait of the first of its
    /// batch.
    #[test]
    fn waiters_that_are_served_together_are_late_by_a_third_at_most_and_lose_nothing(
        rule in rules(),
        steps in steps(),
    ) {
        let mut exact = Side::new(ManualClock::new(), rule.clone());
        let mut machine = Side::new(ManualClock::of_a_machine(), rule);
        for step in steps {
            exact.take(step);
            machine.take(step);
        }
        exact.take(Step::Pass(10 * SECOND));
        machine.take(Step::Pass(10 * SECOND));
        prop_assert_eq!(&exact.tried, &machine.tried);
        let mut batch = Moment::NEVER;
        for (one, other) in exact.waiters.iter().zip(&machine.waiters) {
            match (one.answer, other.answer) {
                (Some(Ok(due)), Some(Ok(served))) => {
                    prop_assert!(served >= due, "{served:?} before {due:?}");
                    if served != batch {
                        let late = served.nanos_since(due);
                        let waited = due.nanos_since(one.joined);
                        prop_assert!(late <= waited / PATIENCE, "{late} after {waited}");
                    }
                    batch = served;
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
        prop_assert_eq!(exact.gate.snapshot(), machine.gate.snapshot());
    }
}

/// A queue of 64 waiters that ask again at once, as tasks in a loop do: they are served in quarters of the queue, and
/// none waits longer than 64 grants take at this rate.
#[test]
fn tasks_in_a_loop_are_served_by_quarters_and_wait_no_longer_than_the_queue_takes() {
    const TASKS: usize = 64;
    let mut side = Side::new(ManualClock::of_a_machine(), per_second(10_000));
    for _ in 0..TASKS {
        side.wait(Demand::ONE);
    }
    let (mut rings, mut granted) = (0, 0);
    while granted < 40 * TASKS {
        let next = side.time.next_alarm().expect("someone waits");
        side.time.advance_to(next);
        let read = side.read();
        assert!(read > 0, "an alarm that serves nobody");
        rings += 1;
        granted += read;
        for _ in 0..read {
            side.wait(Demand::ONE);
        }
    }
    assert!(granted >= 14 * rings, "{granted} in {rings} batches");
    let queue = SECOND / 10_000 * 64;
    for waiter in side.waiters.iter().skip(10 * TASKS) {
        if let Some(Ok(served)) = waiter.answer {
            let waited = served.nanos_since(waiter.joined);
            let about = queue - queue / 100..=queue + queue / 100;
            assert!(about.contains(&waited), "{waited} of {queue}");
        }
    }
}

/// New demands served the waiters that were due, one by one, and set the alarm again each time.
#[test]
fn who_joins_a_queue_leaves_its_alarm_alone() {
    let mut side = Side::new(ManualClock::of_a_machine(), per_second(1_000));
    for _ in 0..20 {
        side.wait(Demand::ONE);
    }
    side.take(Step::Pass(SECOND / 100));
    let alarm = side.time.next_alarm().expect("half of them wait");
    let served = side.waiters.iter().filter(|it| it.answer.is_some()).count();
    // The next waiter is due, and is delayed for its batch.
    side.time
        .advance_to(Moment::from_nanos(alarm.as_nanos() - 1));
    side.wait(Demand::ONE);
    assert_eq!(side.time.next_alarm(), Some(alarm));
    assert_eq!(
        side.waiters.iter().filter(|it| it.answer.is_some()).count(),
        served
    );
    // A demand that does not wait gets what is left when all due waiters are served.
    assert!(side.gate.try_acquire(1).is_err());
    assert!(side.read() > 0);
}
