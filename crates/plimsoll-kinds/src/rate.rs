use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Basic;
use crate::{
    All, Bandwidths, FixedWindow, Gate, InvalidLimit, Limiter, PenaltyBucket, Refresh, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};

/// A rule of a limit that replenishes itself: nothing is given back, so nobody has to hold a permit.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not replenish itself",
    note = "what is given back needs a place that can hold a permit: take `impl Into<Resource>` there"
)]
pub trait Replenishes: Rule {}

impl Replenishes for Bandwidths {}
impl Replenishes for FixedWindow {}
impl Replenishes for PenaltyBucket {}
impl Replenishes for Refresh {}
impl Replenishes for SlidingCounter {}
impl Replenishes for SlidingLog {}
impl Replenishes for SlidingWindow {}
impl Replenishes for Smooth {}
impl Replenishes for TokenBucket {}

/// A limiter whose permits give nothing back, so that it does not matter when they are dropped.
///
/// Every gate with a rule that [`Replenishes`] is one. A limiter of your own may say so too.
#[diagnostic::on_unimplemented(
    message = "the permits of `{Self}` must be held until the work is done",
    label = "not a rate",
    note = "this place cannot hold a permit: it takes rate and basic limiters only"
)]
pub trait RateLimiter: Limiter {}

impl<R: Replenishes> RateLimiter for Gate<R> {}

/// A limiter of cost over time, of any algorithm.
///
/// Made from a [`RateLimiter`] or a [`Basic`] limiter, never from a [`Resource`](super::Resource). A clone is the same
/// limiter.
///
/// ```
/// use plimsoll::kinds::Rate;
/// use plimsoll::{Gate, TokenBucket};
///
/// let rate = Rate::from(Gate::new(TokenBucket::per_second(5)));
/// rate.try_acquire(5.into())?; // charged; there is nothing to hold
/// assert!(rate.check_saturation().is_err());
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone)]
pub struct Rate {
    pub(super) limiter: Arc<dyn Limiter>,
}

impl Rate {
    /// Several rates as one: all or none, in this order.
    ///
    /// # Errors
    ///
    /// If there are none.
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

/// Asks whether it is saturated for every demand, whatever the cost.
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
