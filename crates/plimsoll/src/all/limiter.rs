use std::sync::Arc;
use std::time::Duration;

use super::All;
use super::reserved::Reserved;
use crate::name::Name;
use crate::{
    Acquire, Clock, Demand, Denied, Limiter, Permit, Reservation, Snapshot, Source, Standing, Terms,
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
                Err(_) => members.acquire(demand).await?,
            };
            Ok(permit.into_owned())
        })
    }

    /// Charges each.
    fn charge(&self, cost: u32) {
        for member in &self.members.members {
            member.charge(cost);
        }
    }

    /// That of the member which has the least left.
    fn standing(&self) -> Option<Standing> {
        let members = self.members.members.iter();
        members
            .filter_map(|member| member.standing())
            .min_by_key(Standing::remaining)
    }

    fn terms(&self) -> Terms {
        let members = self.members.members.iter();
        let least = members
            .map(|member| member.terms())
            .min_by_key(|it| it.limit);
        least.unwrap_or_default()
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let members = &*self.members;
        let made_at = members.clock().precise_now();
        let mut held = Vec::with_capacity(members.members.len());
        for (index, member) in members.members.iter().enumerate() {
            match member.reserve(demand) {
                Ok(reservation) => held.push(reservation),
                Err(denied) => {
                    held.into_iter().rev().for_each(Reservation::undo);
                    members.totals.denied();
                    return Err(members.explain(index, denied, demand));
                }
            }
        }
        let waits = held.iter().map(Reservation::wait);
        let wait = waits
            .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
            .flatten();
        let ready_at = wait.map(|wait: Duration| made_at.plus(wait));
        let reserved = Reserved::new(members, demand, held);
        Ok(Reservation::of(made_at, ready_at, reserved))
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        let members = &self.members.members;
        let refused = members.iter().enumerate().find_map(|(index, member)| {
            member.estimate(demand).err().map(|denied| (index, denied))
        });
        match refused {
            Some((index, denied)) => Err(self.members.explain(index, denied, demand)),
            None => Ok(()),
        }
    }

    /// The least of what the members have available, and the greatest of what is in use; the totals
    /// are of demands to all of them.
    fn snapshot(&self) -> Snapshot {
        let (granted, denied) = self.members.totals.sum();
        let members = self.members.members.iter().map(|member| member.snapshot());
        let sum = members.reduce(|a, b| Snapshot {
            limit: a.limit.min(b.limit),
            available: a.available.min(b.available),
            in_use: a.in_use.max(b.in_use),
            queue_bound: a.queue_bound.saturating_add(b.queue_bound),
            queued: a.queued + b.queued,
            waiters: a.waiters + b.waiters,
            evicted: a.evicted + b.evicted,
            cancelled: a.cancelled + b.cancelled,
            ..a
        });
        Snapshot {
            granted,
            denied,
            ..sum.unwrap_or_default()
        }
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        let mut members = self.members.members.iter();
        members.try_for_each(|member| member.check_saturation())
    }

    /// If a member is.
    fn is_remote(&self) -> bool {
        self.members.here < self.members.members.len()
    }

    /// Closes every member.
    fn close(&self) {
        for member in &self.members.members {
            member.close();
        }
    }

    fn name(&self) -> Option<&str> {
        self.members.name.map(Name::as_str)
    }

    fn clock(&self) -> &Clock {
        self.members.clock()
    }

    fn source(&self) -> &dyn Source {
        &*self.members
    }
}
