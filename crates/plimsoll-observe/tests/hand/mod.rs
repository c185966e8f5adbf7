//! Limiters whose time, and whose waiters, are moved by hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use plimsoll::{Concurrency, Gate, ManualClock, Queue};

pub(crate) fn gate(time: &ManualClock, limit: u64, queue: u64) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(queue))
        .clock(time.clock())
        .build()
}

/// Polls once. Nobody is woken: the test looks again when it wants to know.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
