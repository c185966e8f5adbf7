//! What stands behind the name of a limit, or behind one of its tiers.

use plimsoll::adaptive::Insight;
use plimsoll::together::{self, Key};
use plimsoll::{
    Clock, Demand, Denied, Grant, Limiter, LimiterExt, Moment, PerKey, Permit, Reason, Snapshot,
    Standing,
};
use plimsoll_config::KeyedLimiter;
use plimsoll_kinds::{AnyLimiter, LimiterKind};

/// Something that can be asked.
#[derive(Clone, Debug)]
pub(crate) enum Handle {
    One(AnyLimiter),
    Keyed(KeyedLimiter),
    /// A tier without a limit.
    Unlimited,
    /// A tier that is never admitted.
    Blocked,
}

/// A handle with the key that it is asked for.
pub(crate) enum Subject<'a> {
    One(&'a dyn Limiter),
    Keyed(&'a KeyedLimiter, &'a str),
    Unlimited,
    Blocked,
}

impl Handle {
    pub(crate) fn of<'a>(&'a self, key: &'a str) -> Subject<'a> {
        match self {
            Self::One(limiter) => Subject::One(&**limiter.shared()),
            Self::Keyed(limiter) => Subject::Keyed(limiter, key),
            Self::Unlimited => Subject::Unlimited,
            Self::Blocked => Subject::Blocked,
        }
    }

    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Self::One(limiter) => limiter.shared().is_remote(),
            Self::Keyed(limiter) => PerKey::<str>::is_remote(limiter),
            Self::Unlimited | Self::Blocked => false,
        }
    }

    /// Whether callers may wait for it.
    pub(crate) fn has_queue(&self) -> bool {
        match self {
            Self::One(limiter) => together::may_wait(&**limiter.shared()),
            Self::Keyed(limiter) => PerKey::<str>::has_queue(limiter),
            Self::Unlimited | Self::Blocked => false,
        }
    }

    pub(crate) fn kind(&self) -> Option<LimiterKind> {
        match self {
            Self::One(limiter) => Some(limiter.kind()),
            Self::Keyed(limiter) => Some(limiter.kind()),
            Self::Unlimited | Self::Blocked => None,
        }
    }

    /// What time it is for it.
    pub(crate) fn now(&self) -> Option<Moment> {
        match self {
            Self::One(limiter) => Some(limiter.shared().clock().precise_now()),
            Self::Keyed(limiter) => Some(PerKey::<str>::clock(limiter)?.precise_now()),
            Self::Unlimited | Self::Blocked => None,
        }
    }

    pub(crate) const fn is_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    /// What an adaptive limiter without keys has learned.
    pub(crate) fn insight(&self) -> Option<Insight> {
        match self {
            Self::One(limiter) => limiter.shared().insight(),
            Self::Keyed(_) | Self::Unlimited | Self::Blocked => None,
        }
    }

    /// All keys together.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Self::One(limiter) => Some(limiter.shared().snapshot()),
            Self::Keyed(limiter) => Some(limiter.snapshot()),
            Self::Unlimited | Self::Blocked => None,
        }
    }
}

impl<'a> Subject<'a> {
    /// The subject as a key for [`together::Ask::key`], if it is one.
    pub(crate) fn key(&self) -> Option<Key<'a, KeyedLimiter, str>> {
        match *self {
            Self::Keyed(limiter, key) => Some(Key::new(limiter, key)),
            _ => None,
        }
    }

    /// What a demand would be answered. Takes nothing, counts nothing and leaves no key behind.
    pub(crate) fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        match *self {
            Self::One(limiter) => limiter.estimate(demand),
            Self::Keyed(limiter, key) => limiter.estimate(key, demand),
            Self::Unlimited => Ok(()),
            Self::Blocked => Err(blocked()),
        }
    }

    /// Takes now, whatever else is asked.
    pub(crate) fn try_acquire(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        let permit = match *self {
            Self::One(limiter) => limiter.try_acquire(demand)?,
            Self::Keyed(limiter, key) => limiter.try_acquire(key, demand)?,
            Self::Unlimited => return Ok(Permit::spent(Grant::of(demand))),
            Self::Blocked => return Err(blocked()),
        };
        Ok(permit.into_owned())
    }

    pub(crate) fn undo(&self, permit: Permit<'static>) {
        match *self {
            Self::One(limiter) => limiter.undo(permit),
            Self::Keyed(limiter, key) => PerKey::undo(limiter, key, permit),
            Self::Unlimited | Self::Blocked => {}
        }
    }

    /// Gives a rate back what it was charged.
    pub(crate) fn refund(&self, demand: Demand) {
        let clock = match *self {
            Self::One(limiter) => Some(limiter.clock()),
            Self::Keyed(limiter, _) => PerKey::<str>::clock(limiter),
            Self::Unlimited | Self::Blocked => None,
        };
        let Some(now) = clock.map(Clock::precise_now) else {
            return;
        };
        if self.standing().is_some_and(|standing| !standing.returns) {
            self.undo(Permit::spent(Grant::of(demand).taken(now)));
        }
    }

    pub(crate) fn settle(&self, permit: &mut Permit<'static>, cost: u64) {
        match *self {
            Self::One(limiter) => limiter.settle(permit, cost),
            Self::Keyed(limiter, key) => PerKey::settle(limiter, key, permit, cost),
            Self::Unlimited | Self::Blocked => {}
        }
    }

    pub(crate) fn charge(&self, cost: u64) {
        match *self {
            Self::One(limiter) => limiter.charge(cost),
            Self::Keyed(limiter, key) => PerKey::charge(limiter, key, cost),
            Self::Unlimited | Self::Blocked => {}
        }
    }

    pub(crate) fn standing(&self) -> Option<Standing> {
        match *self {
            Self::One(limiter) => Some(limiter.standing()),
            Self::Keyed(limiter, key) => Some(PerKey::standing(limiter, key)),
            Self::Unlimited => None,
            Self::Blocked => Some(Standing::new(0, 0)),
        }
    }
}

/// The refusal of a key that is blocked: nothing of it will ever be granted.
pub(crate) fn blocked() -> Denied {
    Denied::new(Reason::Exhausted).with_limit(0, 0)
}
