//! Limits, queues and subscribers that change while others take.

use std::time::Duration;

use loom::thread;

use super::{assert_idle, check, check_up_to, concurrency, hold, waiter};
use crate::{Carry, Concurrency, EventKind, Gate, ManualClock, Queue, Quota, Rule, TokenBucket};

fn bucket(limit: u64, queue: Option<Queue>) -> Gate<TokenBucket> {
    let mut builder = Gate::builder(TokenBucket::greedy(Quota::per_second(limit)))
        .clock(ManualClock::new().clock())
        .totals(false);
    if let Some(queue) = queue {
        builder = builder.queue(queue);
    }
    builder.build()
}

fn rule(limit: u64) -> TokenBucket {
    TokenBucket::greedy(Quota::per_second(limit))
}

/// Tries on a thread of its own; true if it was granted.
fn tries<R: Rule>(gate: &Gate<R>) -> thread::JoinHandle<bool> {
    let gate = gate.clone();
    thread::spawn(move || gate.try_acquire(1).is_ok_and(|permit| permit.cost() == 1))
}

#[test]
fn what_is_left_while_a_limit_is_replaced_is_taken_once() {
    check(|| {
        let gate = bucket(1, None);
        let other = tries(&gate);
        gate.replace(rule(2), Carry::AsIs);
        let mine = gate.try_acquire(1).is_ok();
        let granted = u64::from(mine) + u64::from(other.join().unwrap());
        assert_eq!(granted, 1);
        assert_eq!(gate.snapshot().available(), 0);
    });
}

#[test]
fn a_limit_that_starts_anew_serves_a_waiter_that_is_just_joining() {
    check(|| {
        let gate = bucket(1, Some(Queue::fifo(8)));
        gate.try_acquire(1).unwrap().forget();
        let waiter = waiter(&gate);
        gate.replace(rule(2), Carry::Reset);
        assert!(waiter.join().unwrap());
        assert_eq!(gate.snapshot().available(), 1);
    });
}

#[test]
fn what_is_undone_serves_a_waiter_that_is_just_joining() {
    check(|| {
        let gate = bucket(1, Some(Queue::fifo(8)));
        let permit = hold(&gate);
        let waiter = waiter(&gate);
        permit.undo();
        assert!(waiter.join().unwrap());
        assert_eq!(gate.snapshot().available(), 0);
    });
}

/// A subscriber parks the word for good: it misses no later event, and no permit is lost.
#[test]
fn a_subscriber_sees_everything_from_then_on() {
    check(|| {
        let gate = concurrency(2);
        let held = hold(&gate);
        let other = thread::spawn(move || drop(held));
        let mut events = gate.subscribe(16);
        drop(gate.try_acquire(1).unwrap());
        other.join().unwrap();
        let mut counts = (0, 0);
        while let Some(event) = events.next() {
            match event.kind {
                EventKind::Processing { .. } => counts.0 += 1,
                EventKind::Processed { .. } => counts.1 += 1,
                _ => {}
            }
        }
        assert_eq!(counts.0, 1);
        assert!((1..=2).contains(&counts.1), "{counts:?}");
        assert_idle(&gate, 2);
    });
}

#[test]
fn a_queue_that_is_just_opened_loses_nobody() {
    check(|| {
        let gate = Gate::builder(Concurrency::new(1))
            .clock(ManualClock::new().clock())
            .totals(false)
            .build();
        let held = hold(&gate);
        let waiter = waiter(&gate);
        gate.set_queue(Some(Queue::fifo(8)));
        drop(held);
        // Refused without a queue, or granted; but answered.
        waiter.join().unwrap();
        assert_idle(&gate, 1);
    });
}

/// A time-out is set while a demand joins that need not read the clock.
#[test]
fn a_queue_that_is_given_a_timeout_answers_everybody() {
    check_up_to(2, || {
        let time = ManualClock::new();
        let gate = Gate::builder(Concurrency::new(1))
            .queue(Queue::fifo(8))
            .clock(time.clock())
            .totals(false)
            .build();
        let held = hold(&gate);
        let waiter = waiter(&gate);
        gate.set_queue(Some(Queue::fifo(8).timeout(Duration::from_secs(1))));
        time.advance(Duration::from_secs(2));
        drop(held);
        waiter.join().unwrap();
        assert_idle(&gate, 1);
    });
}
