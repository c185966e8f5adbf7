//! A gate on the machine's clock: alarms are decided on behind its lock and set when that is free, so the thread that
//! rings comes in between.

use std::sync::Arc;

use loom::thread;

use super::{check, queued, waiter};
use crate::clock::model::Machine;
use crate::{Gate, Queue, Quota, TokenBucket};

/// One token in each second of the machine, none now.
fn empty(machine: &Arc<Machine>) -> Gate<TokenBucket> {
    Gate::builder(TokenBucket::greedy(Quota::per_second(1)).initial(0))
        .queue(Queue::fifo(8))
        .clock(machine.clock())
        .totals(false)
        .build()
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_waiter_that_is_just_joining_is_rung_for() {
    check(|| {
        let machine = Machine::new();
        let gate = empty(&machine);
        let keeper = machine.start();
        let waiter = waiter(&gate);
        machine.advance_to(SECOND);
        assert!(waiter.join().unwrap());
        machine.stop();
        keeper.join().unwrap();
        assert_eq!(gate.snapshot().waiters(), 0);
    });
}

/// A waiter that leaves takes the alarm back or sets it for the next waiter, while that one joins and sets it too.
#[test]
fn a_waiter_is_rung_for_whatever_order_alarms_are_set_in() {
    check(|| {
        let machine = Machine::new();
        let gate = empty(&machine);
        let leaving = queued(&gate);
        let waiter = waiter(&gate);
        drop(leaving);
        // The thread that leaves the lock last is ignored if it decided first.
        machine.advance_to(SECOND);
        let keeper = machine.start();
        assert!(waiter.join().unwrap());
        machine.stop();
        keeper.join().unwrap();
        assert_eq!(gate.snapshot().waiters(), 0);
    });
}

#[test]
fn the_thread_rings_while_the_head_leaves() {
    check(|| {
        let machine = Machine::new();
        let gate = empty(&machine);
        let leaving = queued(&gate);
        let behind = queued(&gate);
        machine.advance_to(2 * SECOND);
        let keeper = machine.start();
        let leaver = thread::spawn(move || drop(leaving));
        leaver.join().unwrap();
        // The head may have been served or not; the waiter behind it must be, or the next one would wait for it.
        machine.advance_to(3 * SECOND);
        assert!(waiter(&gate).join().unwrap());
        machine.stop();
        keeper.join().unwrap();
        drop(behind);
        assert_eq!(gate.snapshot().waiters(), 0);
    });
}
