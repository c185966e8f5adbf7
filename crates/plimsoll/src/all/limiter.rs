use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::All;
use super::reserved::Reserved;
use crate::limiter::Parts;
use crate::name::Name;
use crate::{
    Acquire, Clock, Demand, Denied, Limiter, LimiterExt, Permit, Reservation, Shareable, Snapshot,
    Standing,
};

impl Limiter for All {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        Self::try_acquire(self, demand)
    }

    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Self::acquire(self, demand)
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        let members = Arc::clone(&self.members);
        Acquire::from_future(async move {
            let permit = match members.attempt(demand) {
                Ok(permit) => permit,
                Err(refuser) => members.acquire(demand, refuser).await?,
            };
            Ok(permit.into_owned())
        })
    }

    /// The standing of the member with the least left.
    fn standing(&self) -> Standing {
        let members = self.members.limiters.iter().map(|member| member.standing());
        // A member in a store has at most its whole limit left.
        let at_most = |it: &Standing| it.remaining.or((it.limit > 0).then_some(it.limit));
        let least = members.min_by_key(|it| (at_most(it).is_none(), at_most(it), it.limit));
        least.unwrap_or_default()
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let members = &*self.members;
        let made_at = members.clock().precise_now();
        let reserved = match members.asked(demand).reserve() {
            Ok(reserved) => reserved,
            Err(denied) => {
                members.count_denied(demand, &denied);
                return Err(denied);
            }
        };
        let ready_at = reserved.wait().map(|wait: Duration| made_at.plus(wait));
        let reserved = Reserved {
            members,
            demand,
            reserved,
        };
        Ok(Reservation::of(made_at, ready_at, reserved))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.members.asked(demand).estimate()
    }

    /// The smallest available amount and the largest amount in use of all members; the totals count demands to all
    /// members.
    fn snapshot(&self) -> Snapshot {
        let (granted, denied) = self.members.totals.sum();
        let members = self.members.group.limiters().map(|(limiter, times)| {
            let seen = limiter.snapshot();
            Snapshot {
                limit: seen.limit / times,
                available: seen.available / times,
                ..seen
            }
        });
        let sum = members.reduce(|a, b| Snapshot {
            limit: a.limit.min(b.limit),
            available: a.available.min(b.available),
            in_use: a.in_use.max(b.in_use),
            queue_bound: a.queue_bound.saturating_add(b.queue_bound),
            queued: a.queued.saturating_add(b.queued),
            waiters: a.waiters + b.waiters,
            evicted: a.evicted + b.evicted,
            cancelled: a.cancelled + b.cancelled,
            ..a
        });
        let undone = self.members.undone.load(Ordering::Relaxed);
        Snapshot {
            granted: granted.saturating_sub(undone),
            denied,
            ..sum.unwrap_or_default()
        }
    }

    /// Closes every member.
    fn close(&self) {
        for member in &self.members.limiters {
            member.close();
        }
    }

    fn name(&self) -> Option<&str> {
        self.members.name.and_then(Name::as_str)
    }

    fn clock(&self) -> &Clock {
        self.members.clock()
    }

    fn internals(&self) -> Option<&dyn crate::Internals> {
        Some(self)
    }
}

impl crate::Internals for All {
    fn source(&self) -> Option<&dyn Shareable> {
        Some(&*self.members)
    }

    /// Charges each member.
    fn charge(&self, cost: u64) {
        for (limiter, times) in self.members.group.limiters() {
            limiter.charge(cost.saturating_mul(times));
        }
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        let mut members = self.members.limiters.iter();
        members.try_for_each(|member| member.check_saturation())
    }

    /// Whether a member is remote.
    fn is_remote(&self) -> bool {
        self.members.group.is_remote()
    }

    fn parts(&self) -> Parts<'_> {
        Parts::several(&*self.members)
    }
}
