//! Time and tasks by hand: nothing moves but what the test moves.

#![expect(dead_code, reason = "not every test needs all of it")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use plimsoll::{Gate, ManualClock, Queue, Rule};

/// Polls once. Nobody is woken: the test looks again when it wants to know.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A limiter with a fifo queue for as many as come.
pub(crate) fn queued<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    let gate = Gate::builder(rule).queue(Queue::fifo(u32::MAX));
    gate.clock(time.clock()).build()
}

/// Lets every task that can run do so. For runtimes of one thread, and tasks that wait for nothing outside of it.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
