//! Wakers that count, and wakers that panic.

use std::any::Any;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

const MESSAGE: &str = "a waker of the soak panics";

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("{MESSAGE}");
    }
}

/// A waker that panics when it is woken.
pub(crate) fn panicking() -> Waker {
    Arc::new(Panics).into()
}

/// Keeps panics that are meant out of the output.
pub(crate) fn silence_expected_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !is_expected(info.payload()) {
            default(info);
        }
    }));
}

pub(crate) fn is_expected(panic: &(dyn Any + Send)) -> bool {
    panic
        .downcast_ref::<String>()
        .is_some_and(|message| message == MESSAGE)
        || panic
            .downcast_ref::<&str>()
            .is_some_and(|it| *it == MESSAGE)
}

/// Polls once with a waker that panics, then gives the future up.
pub(crate) fn poll_once_and_drop<T>(future: impl Future<Output = T>, waker: &Waker) -> Option<T> {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(waker)) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
