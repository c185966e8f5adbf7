//! Requests of a connection over HTTP/2, answered by the task of the connection.
//!
//! Most are answered at once: a task for each of them costs more than the answer. So each is begun when all that have arrived are
//! read, one after the other, and their answers are sent together. One that has to wait becomes a task of its own.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use hyper::rt::Executor;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The requests of one connection that have arrived and are not begun.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<Vec<Stream>>>);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.arrived().push(Box::pin(stream));
    }
}

impl Streams {
    /// Serves the connection whose requests these are until it ends.
    pub(crate) async fn serve<C: Future>(&self, mut connection: Pin<&mut C>) -> C::Output {
        poll_fn(|cx| {
            loop {
                let polled = connection.as_mut().poll(cx);
                let arrived = std::mem::take(&mut *self.arrived());
                if polled.is_ready() || arrived.is_empty() {
                    // What arrived on a connection that has ended is not begun.
                    return polled;
                }
                for mut stream in arrived {
                    // As with a task of its own, a request that panics ends itself, and no other.
                    let begun = catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll(cx)));
                    if let Ok(Poll::Pending) = begun {
                        tokio::spawn(stream);
                    }
                }
            }
        })
        .await
    }

    fn arrived(&self) -> std::sync::MutexGuard<'_, Vec<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
