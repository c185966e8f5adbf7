//! Futures polled by hand, so that a test says what happens when.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Looks at a future once.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What a future that has nothing to wait for comes to.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match poll(std::pin::pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
