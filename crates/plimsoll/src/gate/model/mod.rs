//! Every interleaving of the gate, up to a number of preemptions: no lost wake-up (the model would never
//! end), no leaked and no minted permit (the final count would be off).

mod changes;
mod machine;
mod queues;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::future::block_on;
use loom::thread;

use crate::{
    Acquire, Concurrency, Gate, ManualClock, Permit, Queue, Quota, Reason, Rule, TokenBucket,
};

pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    check_up_to(3, model);
}

/// With fewer preemptions, where many threads make for many interleavings.
pub(crate) fn check_up_to(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

fn concurrency(limit: u64) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(8))
        .clock(ManualClock::new().clock())
        .totals(false)
        .build()
}

/// Waits on a thread of its own; the thread returns whether it was granted.
pub(crate) fn waiter<R: Rule>(gate: &Gate<R>) -> thread::JoinHandle<bool> {
    let gate = gate.clone();
    thread::spawn(move || block_on(gate.acquire(1)).is_ok())
}

pub(crate) fn hold<R: Rule>(gate: &Gate<R>) -> Permit<'static> {
    gate.try_acquire(1).unwrap().into_owned()
}

/// An acquire that has joined the queue, and the gate it borrows from.
fn queued<R: Rule>(gate: &Gate<R>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let gate = gate.clone();
    let mut future = Box::pin(async move {
        let acquire: Acquire<'_> = gate.acquire(1);
        drop(acquire.await);
    });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(future.as_mut().poll(&mut cx), Poll::Pending));
    future
}

#[track_caller]
pub(crate) fn assert_idle<R: Rule>(gate: &Gate<R>, limit: u64) {
    let snapshot = gate.snapshot();
    assert_eq!(snapshot.available(), limit, "{snapshot:?}");
    assert_eq!(
        (snapshot.in_use(), snapshot.waiters(), snapshot.queued()),
        (0, 0, 0)
    );
}

#[test]
fn a_release_wakes_a_waiter_that_is_just_joining() {
    check(|| {
        let gate = concurrency(1);
        let held = hold(&gate);
        let waiter = waiter(&gate);
        drop(held);
        assert!(waiter.join().unwrap());
        assert_idle(&gate, 1);
    });
}

#[test]
fn two_releases_wake_two_waiters() {
    check_up_to(2, || {
        let gate = concurrency(2);
        let (first, second) = (hold(&gate), hold(&gate));
        let (one, two) = (waiter(&gate), waiter(&gate));
        let releaser = thread::spawn(move || drop(first));
        drop(second);
        assert!(one.join().unwrap());
        assert!(two.join().unwrap());
        releaser.join().unwrap();
        assert_idle(&gate, 2);
    });
}

#[test]
fn a_waiter_that_leaves_passes_on_what_it_was_granted() {
    check(|| {
        let gate = concurrency(1);
        let held = hold(&gate);
        let leaving = queued(&gate);
        let behind = waiter(&gate);
        let leaver = thread::spawn(move || drop(leaving));
        drop(held);
        assert!(behind.join().unwrap());
        leaver.join().unwrap();
        assert_idle(&gate, 1);
    });
}

#[test]
fn closing_answers_every_waiter_and_loses_no_permit() {
    check(|| {
        let gate = concurrency(1);
        let held = hold(&gate);
        let waiter = waiter(&gate);
        let closer = thread::spawn({
            let gate = gate.clone();
            move || gate.close()
        });
        drop(held);
        waiter.join().unwrap();
        closer.join().unwrap();
        assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::Closed);
        assert_idle(&gate, 1);
    });
}

#[test]
fn resizing_while_permits_come_back_neither_mints_nor_loses() {
    check(|| {
        let gate = concurrency(2);
        let (first, second) = (hold(&gate), hold(&gate));
        let waiter = waiter(&gate);
        let resizer = thread::spawn({
            let gate = gate.clone();
            move || gate.resize(1).unwrap()
        });
        drop(first);
        drop(second);
        assert!(waiter.join().unwrap());
        resizer.join().unwrap();
        assert_idle(&gate, 1);
    });
}

#[test]
fn growing_serves_a_waiter_that_is_just_joining() {
    check(|| {
        let gate = concurrency(1);
        let held = hold(&gate);
        let waiter = waiter(&gate);
        gate.resize(2).unwrap();
        assert!(waiter.join().unwrap());
        drop(held);
        assert_idle(&gate, 2);
    });
}

#[test]
fn the_fast_path_never_grants_more_than_the_limit() {
    check(|| {
        let gate = concurrency(1);
        let other = thread::spawn({
            let gate = gate.clone();
            move || {
                gate.try_acquire(1)
                    .is_ok_and(|permit| gate.snapshot().in_use() <= 1 && permit.cost() == 1)
            }
        });
        // Parks the word and puts it back, in the middle of it all.
        gate.set_queue_bound(4);
        let mine = gate.try_acquire(1);
        if mine.is_ok() {
            assert_eq!(gate.snapshot().in_use(), 1);
        }
        drop(mine);
        other.join().unwrap();
        assert_idle(&gate, 1);
    });
}

#[test]
fn the_clock_rings_while_the_head_leaves() {
    check_up_to(2, || {
        let time = ManualClock::new();
        let gate = Gate::builder(TokenBucket::greedy(Quota::per_second(1)))
            .queue(Queue::fifo(8))
            .clock(time.clock())
            .totals(false)
            .build();
        gate.try_acquire(1).unwrap().forget();
        let leaving = queued(&gate);
        let behind = waiter(&gate);
        let leaver = thread::spawn(move || drop(leaving));
        // One token: for the head if it stays, else for the one behind it. Another for a waiter that joined
        // after the first token.
        time.advance(Duration::from_secs(1));
        time.advance(Duration::from_secs(1));
        leaver.join().unwrap();
        time.advance(Duration::from_secs(1));
        assert!(behind.join().unwrap());
        assert_eq!(gate.snapshot().waiters(), 0);
    });
}

#[test]
fn a_deadline_passes_while_a_permit_comes_back() {
    check(|| {
        let time = ManualClock::new();
        let gate = Gate::builder(Concurrency::new(1))
            .queue(Queue::fifo(8).timeout(Duration::from_secs(1)))
            .clock(time.clock())
            .totals(false)
            .build();
        let held = hold(&gate);
        let waiter = waiter(&gate);
        let releaser = thread::spawn(move || drop(held));
        time.advance(Duration::from_secs(2));
        releaser.join().unwrap();
        // Granted or timed out, but answered.
        waiter.join().unwrap();
        assert_idle(&gate, 1);
    });
}

/// Found by a test with threads: the word of an earlier epoch, read just before another turned the epoch, was
/// taken for a bucket that is empty for a long time.
#[test]
fn no_caller_is_refused_by_the_word_of_an_earlier_epoch() {
    check(|| {
        let time = ManualClock::new();
        let quota = Quota::new(u64::MAX, Duration::from_nanos(1_000_000_007));
        let gate = Gate::builder(TokenBucket::greedy(quota).burst(1000))
            .clock(time.clock())
            .totals(false)
            .build();
        // Twenty epochs of 67 ms each.
        time.advance(Duration::from_millis(1500));
        let other = thread::spawn({
            let gate = gate.clone();
            move || gate.try_acquire(1).is_ok()
        });
        assert!(gate.try_acquire(1).is_ok());
        assert!(other.join().unwrap());
        assert_eq!(gate.snapshot().available(), 998);
    });
}
