//! Who waits for whom: eviction and priorities.

use loom::future::block_on;
use loom::thread;

use super::{assert_idle, check_up_to, concurrency, hold, queued, waiter};
use crate::{Concurrency, Demand, Full, Gate, ManualClock, Priority, Queue, Reason};

#[test]
fn an_evicted_waiter_is_woken_while_a_permit_is_returned() {
    check_up_to(2, || {
        let gate = Gate::builder(Concurrency::new(1))
            .queue(Queue::fifo(1).full(Full::Oldest))
            .clock(ManualClock::new().clock())
            .totals(false)
            .build();
        let held = hold(&gate);
        let first = thread::spawn({
            let gate = gate.clone();
            move || {
                block_on(gate.acquire(1))
                    .map(drop)
                    .map_err(|denied| denied.reason())
            }
        });
        let second = waiter(&gate);
        drop(held);
        let first = first.join().unwrap();
        assert!(matches!(first, Ok(()) | Err(Reason::Evicted)), "{first:?}");
        // One of both is evicted at most.
        assert!(second.join().unwrap() || first.is_ok());
        assert_idle(&gate, 1);
    });
}

#[test]
fn a_demand_of_a_higher_class_passes_and_both_are_served() {
    check_up_to(2, || {
        let gate = concurrency(1);
        let held = hold(&gate);
        let low = queued(&gate);
        let high = thread::spawn({
            let gate = gate.clone();
            let demand = Demand::ONE.priority(Priority::Critical);
            move || block_on(gate.acquire(demand)).is_ok()
        });
        let leaver = thread::spawn(move || drop(low));
        drop(held);
        assert!(high.join().unwrap());
        leaver.join().unwrap();
        assert_idle(&gate, 1);
    });
}

/// While two wait, what is returned is handed on without the detour; the last waiter takes it.
#[test]
fn a_permit_that_is_handed_on_reaches_all_who_wait() {
    check_up_to(2, || {
        let gate = concurrency(1);
        let held = hold(&gate);
        let (first, second) = (queued(&gate), queued(&gate));
        let leaver = thread::spawn(move || drop(first));
        let behind = waiter(&gate);
        drop(held);
        leaver.join().unwrap();
        drop(second);
        assert!(behind.join().unwrap());
        assert_idle(&gate, 1);
    });
}
