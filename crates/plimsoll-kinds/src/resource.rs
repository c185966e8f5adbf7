use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Basic, Rate};
use crate::{All, InvalidLimit, Limiter};

/// A limiter whose permits are held until the work is done.
///
/// Every limiter can stand here: a place that holds a permit until the work is done does no harm to one that is not
/// given back to. A clone is the same limiter.
///
/// ```
/// use plimsoll::kinds::{Rate, Resource};
/// use plimsoll::{Concurrency, Gate, TokenBucket};
///
/// let slots = Resource::from(Gate::new(Concurrency::new(1)));
/// let rate = Resource::from(Rate::from(Gate::new(TokenBucket::per_second(1))));
/// for limiter in [&slots, &rate] {
///     let permit = limiter.try_acquire(1.into())?;
///     assert!(limiter.try_acquire(1.into()).is_err());
///     drop(permit);
/// }
/// assert!(slots.try_acquire(1.into()).is_ok()); // was given back
/// assert!(rate.try_acquire(1.into()).is_err()); // comes with time
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(super) limiter: Arc<dyn Limiter>,
}

impl Resource {
    /// Several as one: all or none, in this order.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn all(resources: impl IntoIterator<Item = Self>) -> Result<Self, InvalidLimit> {
        let all = All::try_new(resources.into_iter().map(|resource| resource.limiter))?;
        Ok(all.into())
    }
}

impl<L: Limiter + 'static> From<L> for Resource {
    fn from(limiter: L) -> Self {
        Self {
            limiter: Arc::new(limiter),
        }
    }
}

impl From<Arc<dyn Limiter>> for Resource {
    fn from(limiter: Arc<dyn Limiter>) -> Self {
        Self { limiter }
    }
}

/// Permits give nothing back. A reservation that is dropped before its time is cancelled.
impl From<Rate> for Resource {
    fn from(rate: Rate) -> Self {
        Self {
            limiter: rate.limiter,
        }
    }
}

/// Permits give nothing back.
impl From<Basic> for Resource {
    fn from(basic: Basic) -> Self {
        Self {
            limiter: basic.limiter,
        }
    }
}

impl Deref for Resource {
    type Target = dyn Limiter;

    fn deref(&self) -> &Self::Target {
        &*self.limiter
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.name()).finish()
    }
}
