//! Bodies that the client does not read.
//!
//! A server polls a body when its buffers have room, and they have room when the client reads. A client that does not read
//! leaves the body unpolled; the permits are therefore returned by a timer and not by the body.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use plimsoll::{Clock, Sleep};

use super::lasting::Lasting;
use super::limits::Limits;

/// The error of a body that was not read for [too long](crate::HttpLimitLayer::stall_timeout). The permits of its request have
/// been returned.
///
/// It is the error of [`LimitBody`](crate::LimitBody), boxed:
///
/// ```
/// use plimsoll_tower::Stalled;
///
/// let error: Box<dyn std::error::Error + Send + Sync> = Box::new(Stalled);
/// assert!(error.is::<Stalled>());
/// assert_eq!(error.to_string(), "the body was not read for too long");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body was not read for too long")
    }
}

impl Error for Stalled {}

/// The permits of a body that may stall.
pub(super) struct Watched<L: Limits> {
    cell: Arc<Cell<L>>,
    longest: Duration,
    /// Wakes when the body has stalled.
    alarm: Option<Sleep>,
}

struct Cell<L: Limits>(Mutex<Inside<L>>);

struct Inside<L: Limits> {
    /// Whether the client has not yet read the last part.
    unread: bool,
    stalled: bool,
    lasting: Option<Lasting<L>>,
}

impl<L: Limits> Cell<L> {
    fn lock(&self) -> MutexGuard<'_, Inside<L>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Called by the timer when the time has passed.
impl<L: Limits> Wake for Cell<L> {
    fn wake(self: Arc<Self>) {
        let mut inside = self.lock();
        let held = if inside.unread {
            inside.stalled = true;
            inside.lasting.take()
        } else {
            // It was read at the last moment.
            None
        };
        drop(inside);
        // Dropped without the lock: returning permits wakes other tasks.
        drop(held);
    }
}

impl<L: Limits> Watched<L> {
    pub(super) fn new(lasting: Lasting<L>, longest: Duration) -> Self {
        let inside = Inside {
            unread: true,
            stalled: false,
            lasting: Some(lasting),
        };
        let mut watched = Self {
            cell: Arc::new(Cell(Mutex::new(inside))),
            longest,
            alarm: None,
        };
        watched.set_alarm();
        watched
    }

    /// Records a poll of the body. While the body has nothing to send, the client does not stall it.
    ///
    /// # Errors
    ///
    /// Returns an error if the body has stalled before.
    pub(super) fn begin(&mut self) -> Result<(), Stalled> {
        let mut inside = self.cell.lock();
        if inside.stalled {
            return Err(Stalled);
        }
        inside.unread = false;
        drop(inside);
        self.alarm = None;
        Ok(())
    }

    /// Records that a part was sent. Returns the permits if `is_last`.
    pub(super) fn sent(
        &mut self,
        is_last: impl FnOnce(&mut Lasting<L>) -> bool,
    ) -> Option<Lasting<L>> {
        let mut inside = self.cell.lock();
        if inside.lasting.as_mut().is_none_or(is_last) {
            return inside.lasting.take();
        }
        inside.unread = true;
        drop(inside);
        self.set_alarm();
        None
    }

    fn set_alarm(&mut self) {
        let clock = Clock::system();
        let until = clock.precise_now().plus(self.longest);
        let mut alarm = clock.sleep_until(until);
        let waker = Waker::from(Arc::clone(&self.cell));
        if Pin::new(&mut alarm)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            waker.wake();
        }
        self.alarm = Some(alarm);
    }
}
