//! Stopping in order: no new work, and what is under way ends.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

/// Whether the server stops. A clone sees the same.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<bool>);

/// Begins to stop when asked to, or when dropped.
#[derive(Debug)]
pub struct Begin(watch::Sender<bool>);

impl Begin {
    /// What begins to stop, and what sees it.
    #[must_use]
    pub fn new() -> (Self, Drain) {
        let (begin, drain) = watch::channel(false);
        (Self(begin), Drain(drain))
    }

    /// From now on it stops.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Drain {
    /// Whether the server stops.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the server stops.
    pub async fn begun(&self) {
        let mut drain = self.0.clone();
        // An error is an owner that is gone.
        let _ = drain.wait_for(|begun| *begun).await;
    }

    /// What `work` comes to; `None` if the server stops before.
    pub async fn unless_begun<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.begun() => None,
        }
    }
}

/// Places for connections, at most so many at a time.
#[derive(Clone, Debug)]
pub struct Places {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// A place that is free again when it is dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Places {
    /// So many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most,
        }
    }

    /// Takes one; `None` if all are taken.
    #[must_use]
    pub fn enter(&self) -> Option<Place> {
        let taken = self.taken.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&self.taken));
        (taken < self.most).then_some(place)
    }

    /// How many are taken.
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
