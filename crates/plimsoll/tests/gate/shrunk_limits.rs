//! Limits that become smaller than what somebody waits for.

use std::time::Duration;

use crate::poll::poll;
use plimsoll::Demand;
use plimsoll::{Carry, Gate, ManualClock, Priority, Queue, Quota, Reason, SlidingLog};

/// Whoever was refused behind a waiter that asks for more than the limit has become was told when to come back by letting
/// that waiter be served at the earliest moment, which never came: the answer took for ever.
#[test]
fn a_refusal_behind_one_who_can_no_longer_be_served_is_answered() {
    let log = |limit| SlidingLog::new(Quota::new(limit, Duration::from_secs(10)));
    for class in [Priority::NonCritical, Priority::Normal, Priority::Critical] {
        let time = ManualClock::new();
        let gate = Gate::builder(log(5))
            .queue(Queue::fifo(9))
            .clock(time.clock());
        let gate = gate.build();
        gate.try_acquire(5).unwrap().forget();
        let mut first = gate.acquire(Demand::of(1).priority(Priority::Normal));
        assert!(poll(&mut first).is_pending());
        let mut large = gate.acquire(Demand::of(4).priority(class));
        assert!(poll(&mut large).is_pending());
        gate.replace(log(2), Carry::Used);
        let denied = gate.try_acquire(1).unwrap_err();
        assert_eq!(denied.reason(), Reason::Exhausted);
        assert!(gate.estimate(1).is_err());
        let soon = Demand::of(2).within(Duration::from_secs(1));
        assert!(poll(&mut gate.acquire(soon)).is_ready());
    }
}
