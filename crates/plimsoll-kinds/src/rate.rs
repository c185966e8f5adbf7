use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use plimsoll::{
    All, Bandwidths, FixedWindow, Gate, InvalidLimit, Limiter, Pausable, PenaltyBucket, Refresh,
    Rule, SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};

use crate::basic::Basic;

/// A rule that time refills: permits return nothing, so a caller need not hold them.
///
/// It is implemented for the rate rules of `plimsoll`. Implement it for a custom rule if time refills it too: its gates
/// are then [`RateLimiter`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not refill with time",
    note = "its permits are returned, so the place must hold them: take `impl Into<Resource>` there"
)]
pub trait Replenishes: Rule {}

impl Replenishes for Bandwidths {}
impl Replenishes for FixedWindow {}
impl<R: Replenishes> Replenishes for Pausable<R> {}
impl Replenishes for PenaltyBucket {}
impl Replenishes for Refresh {}
impl Replenishes for SlidingCounter {}
impl Replenishes for SlidingLog {}
impl Replenishes for SlidingWindow {}
impl Replenishes for Smooth {}
impl Replenishes for TokenBucket {}

/// A limiter with permits that return nothing, so that it does not matter when they are dropped.
///
/// Implemented for every gate with a rule that [`Replenishes`]. Implement it for custom limiters if time refills them
/// too.
#[diagnostic::on_unimplemented(
    message = "the permits of `{Self}` must be held until the work is done",
    label = "not a rate",
    note = "this place cannot hold a permit: it takes rate and basic limiters only"
)]
pub trait RateLimiter: Limiter {}

impl<R: Replenishes> RateLimiter for Gate<R> {}

/// A limiter of the cost over time, by any algorithm.
///
/// Made from a [`RateLimiter`] or a [`Basic`] limiter, never from a [`Resource`](crate::Resource). It dereferences to the
/// [`Limiter`]. Clones share the limiter.
///
/// ```
/// use plimsoll::{Gate, LimiterExt, TokenBucket};
/// use plimsoll_kinds::Rate;
///
/// let rate = Rate::from(Gate::new(TokenBucket::per_second(5)));
/// rate.try_acquire(5.into())?; // charged; the permit need not be held
/// assert!(rate.check_saturation().is_err());
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone)]
pub struct Rate {
    pub(crate) limiter: Arc<dyn Limiter>,
}

impl Rate {
    /// Combines several rates: all grant, or none does.
    ///
    /// ```
    /// use plimsoll::{Gate, Quota, TokenBucket};
    /// use plimsoll_kinds::Rate;
    ///
    /// let rates = [TokenBucket::per_second(10), TokenBucket::greedy(Quota::per_hour(500))];
    /// let both = Rate::all(rates.map(|bucket| Rate::from(Gate::new(bucket))))?;
    /// assert_eq!(both.snapshot().available(), 10);
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `rates` is empty.
    pub fn all(rates: impl IntoIterator<Item = Self>) -> Result<Self, InvalidLimit> {
        let all = All::try_new(rates.into_iter().map(|rate| rate.limiter))?;
        Ok(Self {
            limiter: Arc::new(all),
        })
    }
}

impl<L: RateLimiter + 'static> From<L> for Rate {
    fn from(limiter: L) -> Self {
        Self {
            limiter: Arc::new(limiter),
        }
    }
}

/// Every demand asks whether it is saturated, at any cost.
impl From<Basic> for Rate {
    fn from(basic: Basic) -> Self {
        Self {
            limiter: basic.limiter,
        }
    }
}

impl Deref for Rate {
    type Target = dyn Limiter;

    fn deref(&self) -> &Self::Target {
        &*self.limiter
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rate").field(&self.name()).finish()
    }
}
