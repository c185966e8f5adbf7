//! A function that is called with each event.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use super::Events;
use crate::unwind::{discard, isolated};

/// A subscription that calls a function with each event of a limiter. [`Events::listen`] and the `subscribe_with` of
/// limiters return one.
///
/// The function runs on a thread of its own, with no lock held: it may use the limiter, block, and panic. A slow
/// function does not delay the limiter; events that do not fit the buffer are lost and [counted](Self::missed). A panic
/// ends that call only and is [counted](Self::panics).
///
/// Dropping the listener ends the subscription without waiting; [`finish`](Self::finish) waits for the function.
///
/// ```
/// use plimsoll::{EventKind, Gate, TokenBucket};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let refusals = Arc::new(AtomicU64::new(0));
/// let counted = Arc::clone(&refusals);
/// let gate = Gate::new(TokenBucket::per_second(1));
/// let listener = gate.subscribe_with(move |event| {
///     counted.fetch_add(u64::from(matches!(event.kind, EventKind::Rejected { .. })), Relaxed);
/// })?;
/// assert!(gate.try_acquire(2).is_err());
/// listener.finish();
/// assert_eq!(refusals.load(Relaxed), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Listener {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    stop: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Shared {
    panics: AtomicU64,
    missed: AtomicU64,
    /// Whether the remaining events are discarded.
    dropped: AtomicBool,
}

impl<T: Send + 'static> Events<T> {
    /// Calls a function with each event, in order, on a thread of its own. See [`Listener`].
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use std::sync::mpsc;
    ///
    /// let gate = Gate::new(Concurrency::new(1));
    /// let (sender, received) = mpsc::channel();
    /// let listener = gate.subscribe(1000).listen(move |event| {
    ///     let _ = sender.send(event.kind.as_str());
    /// })?;
    /// drop(gate.try_acquire(1));
    /// listener.finish();
    /// let kinds: Vec<_> = received.iter().collect();
    /// assert_eq!(kinds, ["limit_changed", "processing", "in_use_changed", "processed", "in_use_changed"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start another thread.
    pub fn listen(mut self, mut callback: impl FnMut(T) + Send + 'static) -> io::Result<Listener> {
        let shared = Arc::new(Shared::default());
        let stop = Box::new(self.stop());
        let said = Arc::clone(&shared);
        let run = move || {
            while let Some(event) = self.recv_blocking() {
                said.missed.store(self.missed(), Ordering::Relaxed);
                if said.dropped.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(panic) = isolated(|| callback(event)) {
                    said.panics.fetch_add(1, Ordering::Relaxed);
                    discard(panic);
                }
            }
        };
        let thread = thread::Builder::new()
            .name("plimsoll-events".into())
            .spawn(run)?;
        Ok(Listener {
            thread: Some(thread),
            shared,
            stop,
        })
    }
}

impl Listener {
    /// The buffer of `subscribe_with`, in events.
    pub(crate) const CAPACITY: usize = 1024;

    /// Returns the number of calls of the function that panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// Returns the number of events that were lost because the function was slow, as of the last call.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Ends the subscription, and returns when the function has been called with every event before that. When the
    /// function itself calls it, it returns at once.
    pub fn finish(mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // The thread cannot have panicked: every call is isolated.
            let _ended = thread.join();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.dropped.store(true, Ordering::Relaxed);
        (self.stop)();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("missed", &self.missed())
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}
