//! Tokio's clock follows the runtime in which somebody waits, whatever became of the one in which it was made.

#![cfg(feature = "tokio")]

use std::future::Future;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{Clock, Gate, Permit, Queue, Quota, TokenBucket};
use tokio::runtime::{Builder, Runtime};

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.expect("a runtime can be had")
}

/// A bucket that is empty and has one again after `period`.
fn empty(clock: &Clock, period: Duration) -> Gate<TokenBucket> {
    let rule = TokenBucket::greedy(Quota::new(1, period)).initial(0);
    Gate::builder(rule)
        .queue(Queue::fifo(100))
        .clock(clock.clone())
        .build()
}

fn soon(clock: &Clock) -> Gate<TokenBucket> {
    empty(clock, Duration::from_millis(2))
}

/// Whether `work`, on a thread of its own, comes to an end.
#[track_caller]
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    assert!(is_done.recv_timeout(LONG).is_ok(), "it waits for ever");
}

async fn waits(gate: &Gate<TokenBucket>) {
    let served = gate.acquire(1).await.map(Permit::forget);
    served.expect("there is room in the queue");
}

fn blocks(gate: &Gate<TokenBucket>) {
    let served = gate.acquire_blocking(1).map(Permit::forget);
    served.expect("there is room in the queue");
}

/// It panicked.
#[test]
fn it_can_be_made_outside_of_a_runtime() {
    ends(|| {
        let clock = Clock::tokio();
        let gate = soon(&clock);
        blocks(&gate);
        runtime().block_on(waits(&gate));
        runtime().block_on(clock.sleep_until(clock.now().plus(Duration::from_millis(2))));
        blocks(&gate);
    });
}

#[test]
fn made_outside_it_follows_the_paused_time_of_a_runtime() {
    ends(|| {
        let clock = Clock::tokio();
        let hour = Duration::from_secs(3600);
        let paused = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        let gate = empty(&clock, hour);
        paused.expect("a runtime can be had").block_on(async {
            let start = tokio::time::Instant::now();
            waits(&gate).await;
            assert!(start.elapsed() >= hour - Duration::from_secs(60));
        });
    });
}

/// The task was spawned where the clock was made: nobody ran it any more.
#[test]
fn it_outlives_the_runtime_in_which_it_was_made() {
    ends(|| {
        let first = runtime();
        let clock = first.block_on(async { Clock::tokio() });
        let gate = soon(&clock);
        first.block_on(waits(&gate));
        drop(first);
        runtime().block_on(waits(&gate));
        blocks(&gate);
    });
}

#[test]
fn it_does_not_wait_for_a_runtime_that_nobody_runs() {
    ends(|| {
        let idle = runtime();
        let clock = idle.block_on(async { Clock::tokio() });
        let gate = soon(&clock);
        // Somebody waits there, so there is a task that nobody runs.
        let other = empty(&clock, Duration::from_secs(1000));
        let mut waiting = Box::pin(other.acquire_owned(1));
        idle.block_on(async {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
        });
        runtime().block_on(waits(&gate));
    });
}

#[test]
fn a_waiter_goes_on_in_another_runtime() {
    ends(|| {
        let first = runtime();
        let clock = first.block_on(async { Clock::tokio() });
        let gate = empty(&clock, Duration::from_millis(30));
        let mut waiting = Box::pin(gate.acquire_owned(1));
        first.block_on(async {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
        });
        drop(first);
        runtime().block_on(waiting).map(Permit::forget).unwrap();
    });
}

#[test]
fn who_waits_outside_is_woken_when_the_runtime_has_ended() {
    ends(|| {
        let first = runtime();
        let clock = first.block_on(async { Clock::tokio() });
        let gate = empty(&clock, Duration::from_millis(30));
        let waiting = thread::spawn({
            let gate = gate.clone();
            move || blocks(&gate)
        });
        while gate.snapshot().waiters() == 0 {
            thread::yield_now();
        }
        first.block_on(tokio::task::yield_now());
        drop(first);
        waiting.join().unwrap();
    });
}

#[test]
fn a_runtime_without_timers_is_helped_out() {
    ends(|| {
        let plain = Builder::new_current_thread().build();
        let plain = plain.expect("a runtime can be had");
        plain.block_on(async {
            let clock = Clock::tokio();
            waits(&soon(&clock)).await;
            waits(&soon(&clock)).await;
        });
    });
}
