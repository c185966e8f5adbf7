//! The order of waiters: eviction and priorities.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loom::future::block_on;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{assert_idle, check_up_to, concurrency, hold, queued, waiter};
use crate::{
    Acquire, Concurrency, Demand, Full, Gate, ManualClock, Permit, Priority, Queue, Reason,
};

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

/// While two demands wait, a returned permit is handed on by the short path; the last waiter takes it.
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

/// The answer is read from a cell, without the lock: the work done under the permit before it was handed on must still
/// be visible.
#[test]
fn who_is_handed_a_permit_sees_what_was_done_under_it() {
    check_up_to(3, || {
        let gate = concurrency(1);
        let held = hold(&gate);
        let (mut first, mut second) = (gate.acquire_owned(1), gate.acquire_owned(1));
        assert!(polled(&mut first).is_none() && polled(&mut second).is_none());
        let work = Arc::new(AtomicU64::new(0));
        let worker = thread::spawn({
            let work = Arc::clone(&work);
            move || {
                work.store(1, Ordering::Relaxed);
                drop(held);
            }
        });
        let early = polled(&mut first);
        if early.is_some() {
            assert_eq!(work.load(Ordering::Relaxed), 1);
        }
        worker.join().unwrap();
        drop(early.or_else(|| polled(&mut first)).unwrap());
        drop(polled(&mut second).unwrap());
        assert_idle(&gate, 1);
    });
}

fn polled(acquire: &mut Acquire<'static>) -> Option<Permit<'static>> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(acquire).poll(&mut cx) {
        Poll::Ready(permit) => Some(permit.unwrap()),
        Poll::Pending => None,
    }
}
