use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Demands, Permits, Provider};
use crate::Denied;
use crate::together::{self, block_on};

impl Provider {
    /// Takes now for all weights what may be used later, and says when; or takes nothing.
    ///
    /// Of what says yes or no for all weights it asks whether it is saturated; not of the limiters themselves: one that
    /// has nothing left may well promise something for later. See [`Limiter::reserve`](crate::Limiter::reserve) for
    /// what each limiter can promise.
    ///
    /// # Errors
    ///
    /// If one refuses, or would have to be waited for longer than the demand is willing to.
    pub fn reserve<'d>(&self, demands: impl Into<Demands<'d>>) -> Result<Reserved<'_>, Denied> {
        let demands = demands.into();
        self.check_basics()?;
        let held = self.asked(&demands).reserve()?;
        Ok(Reserved { held })
    }
}

/// Permits of several limiters that were taken now and may be used later.
///
/// Awaiting it waits until all are ready. Dropping it before cancels it, see [`Reservation`](crate::Reservation).
///
/// ```
/// use plimsoll::kinds::{Provider, Weight};
/// use plimsoll::{Gate, ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(10)).clock(time.clock()).build();
/// let provider = Provider::builder().limit(Weight::REQUEST_ITEMS, gate).build()?;
///
/// let now = provider.reserve(&[(Weight::REQUEST_ITEMS, 10)])?;
/// let later = provider.reserve(&[(Weight::REQUEST_ITEMS, 5)])?;
/// assert!(now.is_ready());
/// assert_eq!(later.wait(), Some(Duration::from_millis(500)));
/// drop(later); // cancelled: as if it had not been
/// assert_eq!(provider.reserve(&[(Weight::REQUEST_ITEMS, 1)])?.wait(), Some(Duration::from_millis(100)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reserved<'a> {
    held: together::Reserved<'a>,
}

impl<'a> Reserved<'a> {
    /// How long it had to be waited for when it was made: as long as for the last of them. `None` if that depends on
    /// others giving back.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.held.wait()
    }

    /// Whether all could be had at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.wait() == Some(Duration::ZERO)
    }

    /// Waits for its time, blocking the thread.
    ///
    /// # Errors
    ///
    /// If a limiter was closed, or one of them held a place in a queue and lost it.
    pub fn wait_blocking(self) -> Result<Permits<'a>, Denied> {
        block_on(self)
    }
}

impl<'a> Future for Reserved<'a> {
    type Output = Result<Permits<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.held).poll(cx)
    }
}

impl fmt::Debug for Reserved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserved")
            .field("wait", &self.wait())
            .finish_non_exhaustive()
    }
}
