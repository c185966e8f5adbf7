use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use plimsoll::{All, InvalidLimit, Limiter};

use crate::basic::Basic;
use crate::rate::Rate;

/// A limiter with permits that are held until the work is done.
///
/// Every limiter can be a resource: holding the permit of a rate does no harm. It dereferences to the [`Limiter`].
/// Clones share the limiter.
///
/// ```
/// use plimsoll::{Concurrency, Gate, TokenBucket};
/// use plimsoll_kinds::{Rate, Resource};
///
/// let slots = Resource::from(Gate::new(Concurrency::new(1)));
/// let rate = Resource::from(Rate::from(Gate::new(TokenBucket::per_second(1))));
/// for limiter in [&slots, &rate] {
///     let permit = limiter.try_acquire(1.into())?;
///     assert!(limiter.try_acquire(1.into()).is_err());
///     drop(permit);
/// }
/// assert!(slots.try_acquire(1.into()).is_ok()); // was returned
/// assert!(rate.try_acquire(1.into()).is_err()); // refills with time
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(crate) limiter: Arc<dyn Limiter>,
}

impl Resource {
    /// Creates a resource from a limiter that is already shared, without wrapping it again.
    #[must_use]
    pub fn shared(limiter: Arc<dyn Limiter>) -> Self {
        Self { limiter }
    }

    /// Combines several resources: all grant, or none does.
    ///
    /// # Errors
    ///
    /// Returns an error if `resources` is empty.
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

/// Permits return nothing. A reservation that is dropped before its time is cancelled.
impl From<Rate> for Resource {
    fn from(rate: Rate) -> Self {
        Self {
            limiter: rate.limiter,
        }
    }
}

/// Permits return nothing.
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
