//! Graceful shutdown: no new work is accepted, and work in progress ends. Also the limit on connections.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

/// Observes whether the server is shutting down. Clones observe the same shutdown.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<bool>);

/// Starts the shutdown, when [`begin`](Self::begin) is called or the value is dropped.
#[derive(Debug)]
pub struct Begin(watch::Sender<bool>);

impl Begin {
    /// Creates a trigger and its observer.
    #[must_use]
    pub fn new() -> (Self, Drain) {
        let (begin, drain) = watch::channel(false);
        (Self(begin), Drain(drain))
    }

    /// Starts the shutdown.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Drain {
    /// Whether the shutdown has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the shutdown begins.
    pub async fn begun(&self) {
        let mut drain = self.0.clone();
        // An error means that the trigger was dropped, which also starts the shutdown.
        let _ = drain.wait_for(|begun| *begun).await;
    }

    /// Runs `work`. Returns `None` if the shutdown begins before it is ready.
    pub async fn unless_begun<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.begun() => None,
        }
    }
}

/// Bounds the number of concurrent connections. Clones share one bound.
#[derive(Clone, Debug)]
pub struct Places {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// A slot of [`Places`]. Dropping it frees the slot.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Places {
    /// Allows at most `most` connections.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most,
        }
    }

    /// Takes a slot; `None` if all are taken.
    #[must_use]
    pub fn enter(&self) -> Option<Place> {
        let taken = self.taken.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&self.taken));
        (taken < self.most).then_some(place)
    }

    /// The number of slots that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
