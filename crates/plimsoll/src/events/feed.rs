//! The buffer between a limiter and one subscriber.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crossbeam_queue::ArrayQueue;

use super::Event;
use crate::unwind::quietly;

/// The events of a limiter since the [subscription](crate::Gate::subscribe), in order.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
///
/// let gate = Gate::new(Concurrency::new(1));
/// let mut events = gate.subscribe(1000);
/// let permit = gate.try_acquire(1);
/// assert!(gate.try_acquire(1).is_err());
/// drop(permit);
///
/// let kinds: Vec<&str> = events.by_ref().map(|event| event.kind.as_str()).collect();
/// assert_eq!(
///     kinds,
///     ["limit_changed", "processing", "in_use_changed", "rejected", "processed", "in_use_changed"],
/// );
/// assert_eq!(events.missed(), 0);
/// ```
///
/// It is read in one of four ways:
///
/// - as an iterator over the events so far, which returns `None` when there are no more yet, and can be called again
///   later;
/// - by a task, with [`recv`](Self::recv), which the next event wakes;
/// - by a thread, with [`recv_blocking`](Self::recv_blocking);
/// - by a function that is called with each event: [`listen`](Self::listen).
///
/// Events that do not fit the capacity of the subscription are lost and [counted](Self::missed), so a slow subscriber
/// never blocks the limiter. Dropping it ends the subscription.
///
/// While a gate has subscribers, all its decisions take its lock. Without subscribers events cost nothing.
pub struct Events<T = Event>(Arc<Feed<T>>);

struct Feed<T> {
    events: ArrayQueue<T>,
    missed: AtomicU64,
    /// Whether there will be no more events.
    ended: AtomicBool,
    /// The reader, while it waits.
    reader: Mutex<Option<Waker>>,
}

impl<T> Feed<T> {
    /// Leaves the waker of the reader, or takes it. Nothing foreign runs behind the lock.
    fn swap_reader(&self, waker: Option<Waker>) -> Option<Waker> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *reader, waker)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(reader) = self.swap_reader(None) {
            quietly(|| reader.wake());
        }
    }
}

/// The end of a feed that a limiter writes to. When it is dropped the subscriber learns that there are no more events.
pub(crate) struct Writer<T>(Arc<Feed<T>>);

impl<T> Writer<T> {
    /// Both ends of a new feed.
    pub(crate) fn new(capacity: usize) -> (Self, Events<T>) {
        let feed = Arc::new(Feed {
            events: ArrayQueue::new(capacity.max(1)),
            missed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            reader: Mutex::new(None),
        });
        (Self(Arc::clone(&feed)), Events(feed))
    }

    /// Stores an event, and passes the reader to `wake` if it waits; it must be woken when no lock is held. Returns
    /// whether there still is a subscriber.
    pub(crate) fn emit(&self, event: T, wake: &mut dyn FnMut(Waker)) -> bool {
        let feed = &*self.0;
        if !self.is_read() {
            return false;
        }
        if feed.events.push(event).is_err() {
            feed.missed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(reader) = feed.swap_reader(None) {
            wake(reader);
        }
        true
    }

    /// Whether there is a subscriber that wants more.
    pub(crate) fn is_read(&self) -> bool {
        Arc::strong_count(&self.0) > 1 && !self.0.ended.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T> Events<T> {
    /// Returns the number of events that were lost because the buffer was full.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }

    /// Waits for the next event; `None` once the limiter is dropped and all events are read.
    ///
    /// ```
    /// use plimsoll::{Concurrency, EventKind, Gate};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let gate = Gate::new(Concurrency::new(1));
    /// let mut events = gate.subscribe(1000);
    /// assert_eq!(events.recv().await.map(|event| event.kind), Some(EventKind::LimitChanged));
    ///
    /// let reader = tokio::spawn(async move {
    ///     let mut count = 0;
    ///     while let Some(_event) = events.recv().await {
    ///         count += 1;
    ///     }
    ///     count
    /// });
    /// tokio::task::yield_now().await; // the reader waits
    /// drop(gate.try_acquire(1));
    /// drop(gate);
    /// assert_eq!(reader.await.unwrap(), 4);
    /// # });
    /// ```
    ///
    /// Dropping the future loses no event.
    pub fn recv(&mut self) -> NextEvent<'_, T> {
        NextEvent(self)
    }

    /// [`recv`](Self::recv) as a poll, for streams and hand-written futures. One task is woken: the one that polled last.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(event) = self.next() {
            return Poll::Ready(Some(event));
        }
        // Cloned and dropped outside the lock: both are foreign code.
        let waker = cx.waker().clone();
        drop(self.0.swap_reader(Some(waker)));
        // Read before the last look: all events were stored before the end.
        let ended = self.0.ended.load(Ordering::Acquire);
        match self.next() {
            Some(event) => Poll::Ready(Some(event)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Like [`recv`](Self::recv), but blocks the thread while it waits.
    pub fn recv_blocking(&mut self) -> Option<T> {
        crate::blocking::wait(self.recv())
    }

    /// Ends the feed from another thread: the reader gets the stored events, then `None`.
    pub(super) fn stop(&self) -> impl Fn() + Send + Sync + 'static
    where
        T: Send + 'static,
    {
        let feed = Arc::downgrade(&self.0);
        move || {
            if let Some(feed) = feed.upgrade() {
                feed.end();
            }
        }
    }
}

impl<T> Iterator for Events<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.events.pop()
    }
}

/// Stored events are dropped here, not under the lock of the limiter.
impl<T> Drop for Events<T> {
    fn drop(&mut self) {
        drop(self.0.swap_reader(None));
        while let Some(event) = self.0.events.pop() {
            drop(event);
        }
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("waiting", &self.0.events.len())
            .field("missed", &self.missed())
            .finish()
    }
}

/// A future that yields the next event. [`Events::recv`] returns it.
///
/// Dropping it loses no event: the next [`recv`](Events::recv) yields it.
///
/// ```
/// use plimsoll::{Concurrency, EventKind, Gate, NextEvent};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let gate = Gate::new(Concurrency::new(1));
/// let mut events = gate.subscribe(100);
/// let first: NextEvent<'_> = events.recv();
/// assert_eq!(first.await.map(|event| event.kind), Some(EventKind::LimitChanged));
/// # });
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct NextEvent<'a, T = Event>(&'a mut Events<T>);

impl<T> Future for NextEvent<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}
