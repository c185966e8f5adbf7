//! A waiter that is polled by hand and counts how often it is woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use plimsoll::{Acquire, Permit, Reason};

/// One who waits.
pub(crate) struct Waiter<'a> {
    future: Acquire<'a>,
    pub(crate) bell: Arc<Bell>,
}

#[derive(Default)]
pub(crate) struct Bell(AtomicU64);

impl Bell {
    pub(crate) fn rung(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<'a> Waiter<'a> {
    /// One who has not asked yet.
    pub(crate) fn unpolled(future: Acquire<'a>) -> Self {
        Self {
            future,
            bell: Arc::default(),
        }
    }

    /// Joins the queue.
    pub(crate) fn new(future: Acquire<'a>) -> Self {
        let mut waiter = Self::unpolled(future);
        assert!(waiter.look().is_pending());
        waiter
    }

    pub(crate) fn look(&mut self) -> Poll<Result<Permit<'a>, Reason>> {
        let waker = Waker::from(Arc::clone(&self.bell));
        let polled = Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker));
        polled.map_err(|denied| denied.reason())
    }

    pub(crate) fn woken(&self) -> u64 {
        self.bell.rung()
    }
}
