//! Demands on limiters and keys that are known only when a request arrives.

use std::sync::LazyLock;

use crate::limiter::LimiterExt;
use crate::limiter::{Limiter, PartsKind, Target};
use crate::{Acquire, Clock, Demand, Denied, PerKey, Permit, Reservation};

/// The demand of a request on one limiter, or on one key of a limit per key.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub(super) of: Asked<'a>,
    pub(super) demand: Demand,
}

#[derive(Clone, Copy)]
pub(crate) enum Asked<'a> {
    Limiter(&'a dyn Limiter),
    Key(&'a dyn AskKey),
}

impl<'a> Ask<'a> {
    /// Creates a demand on a limiter.
    pub fn limiter(limiter: &'a dyn Limiter, demand: impl Into<Demand>) -> Self {
        Self {
            of: Asked::Limiter(limiter),
            demand: demand.into(),
        }
    }

    /// Creates a demand on a [`Key`].
    pub fn key(key: &'a dyn AskKey, demand: impl Into<Demand>) -> Self {
        Self {
            of: Asked::Key(key),
            demand: demand.into(),
        }
    }

    /// Takes now, for a caller that asks in another way after a refusal: it is not counted.
    pub(super) fn attempt(&self) -> Result<Permit<'a>, Denied> {
        self.of.attempt(self.demand)
    }

    /// Undoes a permit that was granted for this demand. A permit of a key does not know its limiter by itself.
    pub fn undo(&self, permit: Permit<'_>) {
        self.of.undo(permit);
    }

    /// Corrects the cost of a permit after the work. See [`LimiterExt::settle`].
    pub fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        match self.of {
            Asked::Limiter(limiter) => limiter.settle(permit, cost),
            Asked::Key(key) => key.settle(permit, cost),
        }
    }

    /// Whether it can be asked on its own and undone exactly.
    pub(super) fn is_plain(&self) -> bool {
        match self.of {
            Asked::Key(key) => key.undoes_exactly() && !key.is_remote(),
            Asked::Limiter(limiter) => match limiter.parts().kind() {
                PartsKind::Gate(gate) => gate.undoes_exactly(),
                PartsKind::Several(_) => false,
                PartsKind::Unknown => !limiter.is_remote(),
            },
        }
    }
}

impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("limiter", &self.of.name())
            .field("demand", &self.demand)
            .finish()
    }
}

impl<'a> Asked<'a> {
    pub(crate) fn try_acquire(self, demand: Demand) -> Result<Permit<'a>, Denied> {
        match self {
            Self::Limiter(limiter) => limiter.try_acquire(demand),
            Self::Key(key) => key.try_acquire(demand),
        }
    }

    pub(crate) fn attempt(self, demand: Demand) -> Result<Permit<'a>, Denied> {
        match self {
            Self::Limiter(limiter) => limiter.attempt(demand),
            Self::Key(key) => key.attempt(demand),
        }
    }

    pub(crate) fn acquire(self, demand: Demand) -> Acquire<'static> {
        match self {
            Self::Limiter(limiter) => limiter.acquire_owned(demand),
            Self::Key(key) => key.acquire(demand),
        }
    }

    pub(crate) fn reserve(self, demand: Demand) -> Result<Reservation<'a>, Denied> {
        match self {
            Self::Limiter(limiter) => limiter.reserve(demand),
            Self::Key(key) => key.reserve(demand).map(Reservation::for_borrow),
        }
    }

    pub(crate) fn undo(self, permit: Permit<'_>) {
        match self {
            Self::Limiter(limiter) => limiter.undo(permit),
            Self::Key(key) => key.undo(permit),
        }
    }

    /// Whether it would refuse. A key without a gate cannot be asked.
    pub(crate) fn estimate(self, demand: Demand) -> Result<(), Denied> {
        match self {
            Self::Limiter(limiter) => limiter.estimate(demand),
            Self::Key(_) => Ok(()),
        }
    }

    pub(crate) fn clock(self) -> &'a Clock {
        static SYSTEM: LazyLock<Clock> = LazyLock::new(Clock::system);
        match self {
            Self::Limiter(limiter) => limiter.clock(),
            Self::Key(key) => key.clock().unwrap_or(&SYSTEM),
        }
    }

    pub(crate) fn is_remote(self) -> bool {
        match self {
            Self::Limiter(limiter) => limiter.is_remote(),
            Self::Key(key) => key.is_remote(),
        }
    }

    pub(crate) fn name(self) -> Option<&'a str> {
        match self {
            Self::Limiter(limiter) => limiter.name(),
            Self::Key(key) => key.name(),
        }
    }
}

/// One key of a limit per key.
#[derive(Debug)]
pub struct Key<'a, L: ?Sized, Q: ?Sized> {
    limiter: &'a L,
    key: &'a Q,
}

impl<'a, L: PerKey<Q> + ?Sized, Q: ?Sized> Key<'a, L, Q> {
    /// Returns the key of this limit.
    pub const fn new(limiter: &'a L, key: &'a Q) -> Self {
        Self { limiter, key }
    }
}

/// A [`Key`] with its types erased.
pub trait AskKey: sealed::Sealed + Send + Sync {
    #[doc(hidden)]
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied>;
    #[doc(hidden)]
    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied>;
    #[doc(hidden)]
    fn acquire(&self, demand: Demand) -> Acquire<'static>;
    #[doc(hidden)]
    fn reserve(&self, demand: Demand) -> Result<Reservation<'static>, Denied>;
    #[doc(hidden)]
    fn undo(&self, permit: Permit<'_>);
    #[doc(hidden)]
    fn settle(&self, permit: &mut Permit<'_>, cost: u64);
    #[doc(hidden)]
    fn target(&self) -> Option<Result<Target, Denied>>;
    #[doc(hidden)]
    fn undoes_exactly(&self) -> bool;
    #[doc(hidden)]
    fn is_remote(&self) -> bool;
    #[doc(hidden)]
    fn clock(&self) -> Option<&Clock>;
    #[doc(hidden)]
    fn name(&self) -> Option<&str>;
}

impl<L: PerKey<Q> + ?Sized, Q: Sync + ?Sized> AskKey for Key<'_, L, Q> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.limiter.try_acquire(self.key, demand)
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.limiter.attempt(self.key, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'static> {
        self.limiter.acquire_owned(self.key, demand)
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'static>, Denied> {
        self.limiter.reserve_owned(self.key, demand)
    }

    fn undo(&self, permit: Permit<'_>) {
        self.limiter.undo(self.key, permit);
    }

    fn settle(&self, permit: &mut Permit<'_>, cost: u64) {
        self.limiter.settle(self.key, permit, cost);
    }

    fn target(&self) -> Option<Result<Target, Denied>> {
        self.limiter.target(self.key)
    }

    fn undoes_exactly(&self) -> bool {
        self.limiter.undoes_exactly()
    }

    fn is_remote(&self) -> bool {
        self.limiter.is_remote()
    }

    fn clock(&self) -> Option<&Clock> {
        self.limiter.clock()
    }

    fn name(&self) -> Option<&str> {
        self.limiter.name()
    }
}

mod sealed {
    pub trait Sealed {}

    impl<L: ?Sized, Q: ?Sized> Sealed for super::Key<'_, L, Q> {}
}

/// Returns whether callers of a limiter may have to wait in a queue.
pub fn may_wait(limiter: &dyn Limiter) -> bool {
    match limiter.parts().kind() {
        PartsKind::Gate(gate) => gate.queue_bound().is_some(),
        PartsKind::Several(_) | PartsKind::Unknown => true,
    }
}
