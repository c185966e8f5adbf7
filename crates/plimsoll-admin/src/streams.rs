//! An executor that polls the streams of an HTTP/2 connection on the task of the connection.
//!
//! Most requests are ready at the first poll, and a task for each would cost more than its response. After all requests that have
//! arrived are read, each is polled once, and their responses are sent together. A request that is pending becomes a task of its own.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use hyper::rt::Executor;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The requests of one connection that have arrived and were not polled.
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
    /// Drives the connection and its requests until it ends.
    pub(crate) async fn serve<C: Future>(&self, mut connection: Pin<&mut C>) -> C::Output {
        poll_fn(|cx| {
            loop {
                let polled = connection.as_mut().poll(cx);
                let arrived = std::mem::take(&mut *self.arrived());
                if polled.is_ready() || arrived.is_empty() {
                    // Requests on a connection that has ended are dropped.
                    return polled;
                }
                for mut stream in arrived {
                    // As with a task of its own, a panic ends only its request.
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
