use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use plimsoll::{All, Gate, InvalidLimit, Limiter, Partition, Rule};

use crate::basic::Basic;
use crate::rate::Rate;
use crate::resource::Resource;

/// The kind of a limiter: whether its demands have a cost, and whether its permits are returned.
///
/// ```
/// use plimsoll::{Concurrency, Gate, TokenBucket};
/// use plimsoll_kinds::{AnyLimiter, LimiterKind};
///
/// let rate = AnyLimiter::from(Gate::new(TokenBucket::per_second(5)));
/// let slots = AnyLimiter::from(Gate::new(Concurrency::new(5)));
/// assert_eq!((rate.kind(), slots.kind()), (LimiterKind::Rate, LimiterKind::Resource));
/// assert_eq!(LimiterKind::Resource.as_str(), "resource");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LimiterKind {
    /// [`Basic`]: admits or refuses, regardless of the cost.
    Basic,
    /// [`Rate`]: limits the cost over time. Permits return nothing.
    Rate,
    /// [`Resource`]: limits the cost in use. Permits are held until the work is done.
    Resource,
}

impl LimiterKind {
    /// Returns the name of the kind in configuration files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Rate => "rate",
            Self::Resource => "resource",
        }
    }
}

impl fmt::Display for LimiterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limiter with a kind that is known only at run time, such as one from a file.
///
/// It dereferences to the [`Limiter`]. It converts into a [`Resource`], and with `TryFrom` into a [`Rate`]. Clones
/// share the limiter. The kind of a [`Gate`] follows from its rule: [`Resource`](Self::Resource) if its permits are
/// returned, otherwise [`Rate`](Self::Rate).
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_kinds::{AnyLimiter, LimiterKind, Rate};
///
/// let any = AnyLimiter::from(Gate::builder(Concurrency::new(10)).name("slots").build());
/// assert_eq!(any.kind(), LimiterKind::Resource);
/// let invalid = Rate::try_from(any).unwrap_err();
/// assert_eq!(invalid.to_string(), "`kind` is resource (slots): expected rate or basic");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyLimiter {
    /// A limiter that admits or refuses, regardless of the cost.
    Basic(Basic),
    /// A limiter of the cost over time.
    Rate(Rate),
    /// A limiter of the cost in use.
    Resource(Resource),
}

impl AnyLimiter {
    /// Returns the kind of the limiter.
    #[must_use]
    pub const fn kind(&self) -> LimiterKind {
        match self {
            Self::Basic(_) => LimiterKind::Basic,
            Self::Rate(_) => LimiterKind::Rate,
            Self::Resource(_) => LimiterKind::Resource,
        }
    }

    /// Returns the limiter as a trait object, to be shared with code that does not depend on its kind.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Limiter};
    /// use plimsoll_kinds::AnyLimiter;
    /// use std::sync::Arc;
    ///
    /// let any = AnyLimiter::from(Gate::new(Concurrency::new(1)));
    /// let shared: Arc<dyn Limiter> = Arc::clone(any.shared());
    /// let _permit = shared.try_acquire(1.into())?;
    /// assert!(any.try_acquire(1.into()).is_err());
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub const fn shared(&self) -> &Arc<dyn Limiter> {
        match self {
            Self::Basic(basic) => &basic.limiter,
            Self::Rate(rate) => &rate.limiter,
            Self::Resource(resource) => &resource.limiter,
        }
    }
}

impl Deref for AnyLimiter {
    type Target = dyn Limiter;

    fn deref(&self) -> &Self::Target {
        &**self.shared()
    }
}

impl From<Basic> for AnyLimiter {
    fn from(basic: Basic) -> Self {
        Self::Basic(basic)
    }
}

impl From<Rate> for AnyLimiter {
    fn from(rate: Rate) -> Self {
        Self::Rate(rate)
    }
}

impl From<Resource> for AnyLimiter {
    fn from(resource: Resource) -> Self {
        Self::Resource(resource)
    }
}

/// A resource if the permits of its rule are returned, otherwise a rate.
impl<R: Rule> From<Gate<R>> for AnyLimiter {
    fn from(gate: Gate<R>) -> Self {
        if R::RETURNS_PERMITS {
            return Self::Resource(gate.into());
        }
        Self::Rate(Rate {
            limiter: Arc::new(gate),
        })
    }
}

impl<R: Rule> From<Partition<R>> for AnyLimiter {
    fn from(partition: Partition<R>) -> Self {
        Self::Resource(partition.into())
    }
}

/// A resource: the kinds of its members are not known.
impl From<All> for AnyLimiter {
    fn from(all: All) -> Self {
        Self::Resource(all.into())
    }
}

/// Fails for a resource: code that uses a rate holds no permits.
impl TryFrom<AnyLimiter> for Rate {
    type Error = InvalidLimit;

    fn try_from(any: AnyLimiter) -> Result<Self, InvalidLimit> {
        match any {
            AnyLimiter::Basic(basic) => Ok(basic.into()),
            AnyLimiter::Rate(rate) => Ok(rate),
            AnyLimiter::Resource(resource) => {
                let which = match resource.name() {
                    Some(name) => format!("resource ({name})"),
                    None => LimiterKind::Resource.to_string(),
                };
                Err(InvalidLimit::new("kind", which, "rate or basic"))
            }
        }
    }
}

/// Never fails: code that holds permits can use every kind.
impl From<AnyLimiter> for Resource {
    fn from(any: AnyLimiter) -> Self {
        match any {
            AnyLimiter::Basic(basic) => basic.into(),
            AnyLimiter::Rate(rate) => rate.into(),
            AnyLimiter::Resource(resource) => resource,
        }
    }
}
