use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use plimsoll::{All, Gate, InvalidLimit, Limiter, Partition, Rule};

use crate::basic::Basic;
use crate::rate::Rate;
use crate::resource::Resource;

/// The kind of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LimiterKind {
    /// Yes or no, without a weight.
    Basic,
    /// A cost over time.
    Rate,
    /// A cost until it is returned.
    Resource,
}

impl LimiterKind {
    /// The name of the kind in configuration files.
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

/// A limiter whose kind is known only at run time, such as one from a file.
///
/// It dereferences to the [`Limiter`], converts into a [`Resource`], and fallibly into a [`Rate`]. Clones share the limiter.
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
pub enum AnyLimiter {
    /// Yes or no, without a weight.
    Basic(Basic),
    /// A cost over time.
    Rate(Rate),
    /// A cost until it is returned.
    Resource(Resource),
}

impl AnyLimiter {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> LimiterKind {
        match self {
            Self::Basic(_) => LimiterKind::Basic,
            Self::Rate(_) => LimiterKind::Rate,
            Self::Resource(_) => LimiterKind::Resource,
        }
    }

    /// The limiter as a trait object.
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

/// A resource if permits are returned to its rule, otherwise a rate.
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

/// Fails for a resource, because a rate cannot hold permits.
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
