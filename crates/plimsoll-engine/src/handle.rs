//! The limiter behind the name of a limit, or behind one of its tiers.
//!
//! A [`Handle`] is one of a limiter, a keyed limiter, "unlimited" and "blocked". A [`Subject`] is a handle together
//! with the key of an ask: the smallest unit with a state of its own.

use std::sync::Arc;

use plimsoll::adaptive::Insight;
use plimsoll::together::{self, Key};
use plimsoll::{
    Clock, Demand, Denied, Grant, Limiter, LimiterExt, Moment, Permit, Reason, Reservation,
    Snapshot, Standing,
};
use plimsoll_config::KeyedLimiter;
use plimsoll_kinds::{AnyLimiter, LimiterKind, TextKeys};

/// The limiter of a limit, or of one of its tiers or overrides.
#[derive(Clone, Debug)]
pub(crate) enum Handle {
    One(AnyLimiter),
    Keyed(KeyedLimiter),
    /// A tier without a limit.
    Unlimited,
    /// A tier that is never admitted.
    Blocked,
}

/// A handle with the key of one ask.
pub(crate) enum Subject<'a> {
    One(&'a Arc<dyn Limiter>),
    Keyed(&'a (dyn TextKeys + 'static), &'a str),
    Unlimited,
    Blocked,
}

impl Handle {
    #[inline]
    pub(crate) fn of<'a>(&'a self, key: &'a str) -> Subject<'a> {
        match self {
            Self::One(limiter) => Subject::One(limiter.shared()),
            Self::Keyed(limiter) => Subject::Keyed(&**limiter.shared(), key),
            Self::Unlimited => Subject::Unlimited,
            Self::Blocked => Subject::Blocked,
        }
    }

    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Self::One(limiter) => limiter.shared().is_remote(),
            Self::Keyed(limiter) => limiter.shared().is_remote(),
            Self::Unlimited | Self::Blocked => false,
        }
    }

    /// Whether it can be asked before the other limits of a decision: it is in memory, and its grants can be undone exactly.
    #[inline]
    pub(crate) fn is_undoable(&self) -> bool {
        match self {
            Self::One(limiter) => !limiter.shared().is_remote(),
            Self::Keyed(limiter) => limiter.shared().undoes_exactly() && !self.is_remote(),
            Self::Unlimited => true,
            Self::Blocked => false,
        }
    }

    /// Takes now, in memory. A refusal is not counted: the caller asks again on the slow path.
    #[inline]
    pub(crate) fn attempt(&self, key: &str, demand: Demand) -> Option<Permit<'static>> {
        match self.spend(key, demand.cost) {
            Some(taken) => Some(Permit::spent(Grant::of(demand).taken(taken).timed(true))),
            None => self.attempt_slowly(key, demand),
        }
    }

    /// Takes from a rate now, in memory, and returns the moment of the grant. `None` decides nothing.
    #[inline]
    pub(crate) fn spend(&self, key: &str, cost: u64) -> Option<Moment> {
        match self {
            Self::One(AnyLimiter::Rate(rate)) => rate.spend(cost),
            Self::Keyed(limiter) => limiter.shared().spend(key, cost),
            Self::One(_) | Self::Unlimited | Self::Blocked => None,
        }
    }

    /// Takes from a keyed rate now, in memory, and returns the standing of the key. `None` decides nothing.
    #[inline]
    pub(crate) fn take_now(&self, key: &str, cost: u64) -> Option<Standing> {
        match self {
            Self::Keyed(limiter) => limiter.shared().take_now(key, cost),
            Self::One(_) | Self::Unlimited | Self::Blocked => None,
        }
    }

    /// Like [`attempt`](Self::attempt), for limiters that [`spend`](Self::spend) does not decide for.
    #[inline(never)]
    pub(crate) fn attempt_slowly(&self, key: &str, demand: Demand) -> Option<Permit<'static>> {
        if let Self::One(limiter) = self
            && let Some(permit) = limiter.shared().attempt_owned(demand)
        {
            return Some(permit);
        }
        let permit = match self {
            _ if self.is_remote() => return None,
            Self::One(limiter) => limiter.shared().attempt(demand),
            Self::Keyed(limiter) => limiter.shared().attempt(key, demand),
            Self::Unlimited | Self::Blocked => return None,
        };
        permit.ok().map(Permit::into_owned)
    }

    /// Whether demands can wait in a queue.
    pub(crate) fn has_queue(&self) -> bool {
        match self {
            Self::One(limiter) => together::may_wait(&**limiter.shared()),
            Self::Keyed(limiter) => limiter.shared().has_queue(),
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

    /// The time of its clock.
    pub(crate) fn now(&self) -> Option<Moment> {
        match self {
            Self::One(limiter) => Some(limiter.shared().clock().precise_now()),
            Self::Keyed(limiter) => Some(limiter.shared().clock()?.precise_now()),
            Self::Unlimited | Self::Blocked => None,
        }
    }

    pub(crate) const fn is_keyed(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    /// The state of the algorithm of an adaptive limiter without keys.
    pub(crate) fn insight(&self) -> Option<Insight> {
        match self {
            Self::One(limiter) => limiter.shared().insight(),
            Self::Keyed(_) | Self::Unlimited | Self::Blocked => None,
        }
    }

    /// The number of keys in memory, if it has keys and they are in this process.
    pub(crate) fn key_count(&self) -> Option<usize> {
        match self {
            Self::Keyed(limiter) => limiter.shared().key_count(),
            Self::One(_) | Self::Unlimited | Self::Blocked => None,
        }
    }

    /// The limit and the window that apply to every key.
    pub(crate) fn promise(&self) -> Option<Standing> {
        match self {
            Self::One(limiter) => Some(limiter.shared().standing()),
            Self::Keyed(limiter) => Some(limiter.shared().promise()),
            Self::Unlimited | Self::Blocked => None,
        }
    }

    /// The state of all keys together.
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
    pub(crate) fn key(&self) -> Option<Key<'a, dyn TextKeys, str>> {
        match *self {
            Self::Keyed(limiter, key) => Some(Key::new(limiter, key)),
            _ => None,
        }
    }

    /// The answer to a demand, as if `charged` had been charged before. Takes nothing, counts nothing and creates no key.
    pub(crate) fn estimate(&self, charged: u64, demand: Demand) -> Result<(), Denied> {
        match *self {
            Self::One(limiter) => {
                limiter.estimate(demand.cost(demand.cost.saturating_add(charged)))
            }
            Self::Keyed(limiter, key) => limiter.estimate_after(key, charged, demand),
            Self::Unlimited => Ok(()),
            Self::Blocked => Err(blocked()),
        }
    }

    /// Makes a reservation, which borrows nothing.
    pub(crate) fn reserve(&self, demand: Demand) -> Result<Reservation<'static>, Denied> {
        match *self {
            Self::One(limiter) => together::reserve_shared(Arc::clone(limiter), demand),
            Self::Keyed(limiter, key) => limiter.reserve_owned(key, demand),
            Self::Unlimited => Ok(Reservation::ready(Permit::spent(Grant::of(demand)))),
            Self::Blocked => Err(blocked()),
        }
    }

    /// Takes now, regardless of the other members of the decision.
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
            Self::Keyed(limiter, key) => limiter.undo(key, permit),
            Self::Unlimited | Self::Blocked => {}
        }
    }

    /// Refunds a rate.
    pub(crate) fn refund(&self, demand: Demand) {
        let clock = match *self {
            Self::One(limiter) => Some(limiter.clock()),
            Self::Keyed(limiter, _) => limiter.clock(),
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
            Self::Keyed(limiter, key) => limiter.settle(key, permit, cost),
            Self::Unlimited | Self::Blocked => {}
        }
    }

    pub(crate) fn charge(&self, cost: u64) {
        match *self {
            Self::One(limiter) => limiter.charge(cost),
            Self::Keyed(limiter, key) => limiter.charge(key, cost),
            Self::Unlimited | Self::Blocked => {}
        }
    }

    pub(crate) fn standing(&self) -> Option<Standing> {
        match *self {
            Self::One(limiter) => Some(limiter.standing()),
            Self::Keyed(limiter, key) => Some(limiter.standing(key)),
            Self::Unlimited => None,
            Self::Blocked => Some(Standing::new(0, 0)),
        }
    }
}

/// The refusal of a blocked key: a limit of 0.
pub(crate) fn blocked() -> Denied {
    Denied::new(Reason::Exhausted).with_limit(0, 0)
}
