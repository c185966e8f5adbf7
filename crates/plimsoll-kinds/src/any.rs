use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Basic, Rate, Resource};
use crate::limiter::Parts;
use crate::{
    Acquire, All, Clock, Demand, Denied, Gate, InvalidLimit, Limiter, Partition, Permit,
    Reservation, Rule, Snapshot, Source, Standing,
};

/// Which kind a limiter is, where only a file can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Yes or no, without a weight.
    Basic,
    /// A cost over time.
    Rate,
    /// A cost until it is given back.
    Resource,
}

impl Kind {
    /// The word used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Rate => "rate",
            Self::Resource => "resource",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limiter of one of the three kinds.
///
/// ```
/// use plimsoll::kinds::{AnyLimiter, Kind, Rate};
/// use plimsoll::{Concurrency, Gate};
///
/// let any = AnyLimiter::from(Gate::builder(Concurrency::new(10)).name("slots").build());
/// assert_eq!(any.kind(), Kind::Resource);
/// let invalid = Rate::try_from(any).unwrap_err();
/// assert_eq!(invalid.to_string(), "`kind` is resource (slots): expected rate or basic");
/// ```
#[derive(Clone, Debug)]
pub enum AnyLimiter {
    /// Yes or no, without a weight.
    Basic(Basic),
    /// A cost over time.
    Rate(Rate),
    /// A cost until it is given back.
    Resource(Resource),
}

impl AnyLimiter {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Basic(_) => Kind::Basic,
            Self::Rate(_) => Kind::Rate,
            Self::Resource(_) => Kind::Resource,
        }
    }

    /// The limiter, whatever its kind.
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

/// A resource if its rule is given back to, otherwise a rate.
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

/// A resource: of its members nobody knows.
impl From<All> for AnyLimiter {
    fn from(all: All) -> Self {
        Self::Resource(all.into())
    }
}

/// What a file asks for and the compiler cannot check.
impl TryFrom<AnyLimiter> for Rate {
    type Error = InvalidLimit;

    fn try_from(any: AnyLimiter) -> Result<Self, InvalidLimit> {
        match any {
            AnyLimiter::Basic(basic) => Ok(basic.into()),
            AnyLimiter::Rate(rate) => Ok(rate),
            AnyLimiter::Resource(resource) => {
                let which = match resource.name() {
                    Some(name) => format!("resource ({name})"),
                    None => Kind::Resource.to_string(),
                };
                Err(InvalidLimit::new("kind", which, "rate or basic"))
            }
        }
    }
}

/// It answers what the limiter in it answers; so every kind can stand where a permit can be held.
impl Limiter for AnyLimiter {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.shared().try_acquire(demand)
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.shared().attempt(demand)
    }

    fn attempt_owned(&self, demand: Demand) -> Option<Permit<'static>> {
        self.shared().attempt_owned(demand)
    }

    fn undo(&self, permit: Permit<'_>) {
        self.shared().undo(permit);
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        self.shared().acquire(demand)
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        self.shared().acquire_owned(demand)
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        self.shared().reserve(demand)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.shared().estimate(demand)
    }

    fn charge(&self, cost: u32) {
        self.shared().charge(cost);
    }

    fn settle(&self, permit: &mut Permit<'_>, cost: u32) {
        self.shared().settle(permit, cost);
    }

    fn snapshot(&self) -> Snapshot {
        self.shared().snapshot()
    }

    fn standing(&self) -> Standing {
        self.shared().standing()
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        self.shared().check_saturation()
    }

    fn is_remote(&self) -> bool {
        self.shared().is_remote()
    }

    fn close(&self) {
        self.shared().close();
    }

    fn name(&self) -> Option<&str> {
        self.shared().name()
    }

    fn clock(&self) -> &Clock {
        self.shared().clock()
    }

    fn source(&self) -> &dyn Source {
        self.shared().source()
    }

    fn parts(&self) -> Parts<'_> {
        self.shared().parts()
    }
}
