//! Asking for several weights at once: all or none.

use std::future::poll_fn;

use super::provider::Limited;
use super::{Demands, Permits, Provider};
use crate::together::{Left, List, One, Taken, Wait, attempt, refuse, unexplained};
use crate::{Demand, Denied};

/// What is asked of the limiters of a provider.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a, 'd> {
    pub(super) provider: &'a Provider,
    pub(super) demands: &'d Demands<'d>,
}

impl<'a> List<'a> for Asked<'a, '_> {
    #[inline]
    fn len(self) -> usize {
        self.provider.leaves.members.len()
    }

    #[inline]
    fn member(self, index: usize) -> One<'a> {
        self.provider.leaves.members[index].one()
    }

    #[inline]
    fn local(self) -> usize {
        self.provider.leaves.local
    }

    #[inline]
    fn precise(self) -> bool {
        self.provider.leaves.precise
    }

    #[inline]
    fn one_clock(self) -> bool {
        self.provider.leaves.one_clock
    }

    #[inline]
    fn cost(self, index: usize) -> Option<u64> {
        let (_, uses) = self.provider.leaves.uses.get(index)?;
        let costs = uses.iter().filter_map(|&(weight, times)| {
            let cost = self.demands.cost(weight)?;
            Some(u64::from(cost) * u64::from(times))
        });
        costs.reduce(u64::saturating_add)
    }

    #[inline]
    fn like(self) -> Demand {
        self.demands.like
    }

    fn count_denied(self, refuser: usize) {
        self.provider.leaves.count_denied(refuser);
    }

    fn name_refusal(self, index: usize, denied: Denied) -> Denied {
        match self.provider.leaves.uses[index].0 {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name.as_str()),
            _ => denied,
        }
    }
}

impl Provider {
    /// Takes for all weights now, or for none. Never waits.
    ///
    /// # Errors
    ///
    /// The refusal of the first limiter that refuses, with the moment at which all would grant.
    #[inline]
    pub fn try_acquire<'d>(&self, demands: impl Into<Demands<'d>>) -> Result<Permits<'_>, Denied> {
        let demands = demands.into();
        self.check_saturation()?;
        let mut held = Permits::new();
        self.take_now(&demands, &mut held)?;
        Ok(held)
    }

    /// Takes for all weights, waiting in the queue of the limiter that refuses. It holds nothing while it waits; when its
    /// turn has come it asks the others again. See [`All`](crate::All#waiting).
    ///
    /// A limiter without a queue is not waited for. What it can promise for later is to be had by
    /// [`reserve`](Self::reserve), and waited for with [`Reserved::wait_blocking`](super::Reserved::wait_blocking).
    ///
    /// Nothing happens before the first poll. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    ///
    /// The refusal of one that does not let it wait: at once, if it is known that the wait takes longer than the demand
    /// is willing to.
    pub async fn acquire<'d>(
        &self,
        demands: impl Into<Demands<'d>>,
    ) -> Result<Permits<'_>, Denied> {
        let demands = demands.into();
        let mut held = Permits::new();
        if let Some(refuser) = self.attempt(&demands, &mut held)? {
            self.wait_for_all(refuser, &demands, &mut held).await?;
        }
        Ok(held)
    }

    /// [`acquire`](Self::acquire), blocking the thread while it waits. For threads outside of async runtimes; bound the
    /// wait with [`Demands::within`].
    ///
    /// # Errors
    ///
    /// See [`acquire`](Self::acquire).
    pub fn acquire_blocking<'d>(
        &self,
        demands: impl Into<Demands<'d>>,
    ) -> Result<Permits<'_>, Denied> {
        let mut held = Permits::new();
        self.take_blocking(&demands.into(), &mut held)?;
        Ok(held)
    }

    /// [`acquire_blocking`](Self::acquire_blocking), into a place that is there already.
    #[inline]
    pub(super) fn take_blocking<'a>(
        &'a self,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<(), Denied> {
        match self.attempt(demands, held)? {
            Some(refuser) => crate::blocking::wait(self.wait_for_all(refuser, demands, held)),
            None => Ok(()),
        }
    }

    /// The limiter that is asked, if it is the only one: the common case, and permits need no list then.
    #[inline]
    pub(super) fn only(&self, demands: &Demands<'_>) -> Option<(&Limited, Demand)> {
        let mut asked = self.limits.iter().filter_map(|limited| {
            let cost = demands.cost(limited.weight)?;
            Some((limited, cost))
        });
        let (limited, cost) = asked.next()?;
        if asked.next().is_some() {
            return None;
        }
        let demand = Demand {
            cost,
            ..demands.like
        };
        Some((limited, demand))
    }

    /// Takes for all now; or says who refused, for one who waits then.
    #[inline]
    pub(super) fn attempt<'a>(
        &'a self,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<Option<usize>, Denied> {
        self.check_saturation()?;
        if demands.like.is_at_once() {
            return self.take_now(demands, held).map(|()| None);
        }
        if self.is_remote() {
            // Those who are asked elsewhere are asked when all others have granted.
            return Ok(Some(self.leaves.local));
        }
        let asked = Asked {
            provider: self,
            demands,
        };
        match attempt(asked, false) {
            Ok(taken) => {
                self.hold(asked, taken, held);
                self.count_granted(demands);
                Ok(None)
            }
            Err((refuser, _)) => Ok(Some(refuser)),
        }
    }

    fn is_remote(&self) -> bool {
        self.leaves.local < self.leaves.members.len()
    }

    /// Takes for all now, of those that are asked elsewhere what is known here.
    #[inline]
    fn take_now<'a>(&'a self, demands: &Demands<'_>, held: &mut Permits<'a>) -> Result<(), Denied> {
        let asked = Asked {
            provider: self,
            demands,
        };
        match attempt(asked, true) {
            Ok(taken) => self.hold(asked, taken, held),
            Err((_, denied)) => return Err(denied.unwrap_or_else(unexplained)),
        }
        for index in self.leaves.local..self.leaves.members.len() {
            let Some(demand) = asked.demand(index) else {
                continue;
            };
            match self.leaves.members[index].limiter.try_acquire(demand) {
                Ok(permit) => held.push(permit),
                Err(denied) => {
                    held.undo_all();
                    return Err(refuse(asked, index, denied));
                }
            }
        }
        self.count_granted(demands);
        Ok(())
    }

    /// The permits for what was taken.
    #[inline]
    fn hold<'a>(&'a self, asked: Asked<'a, '_>, mut taken: Taken<'a>, held: &mut Permits<'a>) {
        for index in 0..self.leaves.local {
            if let Some(permit) = taken.permit(asked, index) {
                held.push(permit);
            }
        }
    }

    /// Counts a grant by those that were taken apart.
    #[inline]
    fn count_granted(&self, demands: &Demands<'_>) {
        for (members, (weight, _)) in &self.leaves.nested {
            if demands.cost(*weight).is_some() {
                members.count_granted_alone();
            }
        }
    }

    pub(super) async fn wait_for_all<'a>(
        &'a self,
        refuser: usize,
        demands: &Demands<'_>,
        held: &mut Permits<'a>,
    ) -> Result<(), Denied> {
        let asked = Asked {
            provider: self,
            demands,
        };
        if self.is_remote() {
            return self.wait_for_remote(asked, held).await;
        }
        let taken = self.wait_for_local(asked, refuser).await?;
        self.hold(asked, taken, held);
        self.count_granted(demands);
        Ok(())
    }

    async fn wait_for_local<'a>(
        &'a self,
        asked: Asked<'a, '_>,
        refuser: usize,
    ) -> Result<Taken<'a>, Denied> {
        let mut wait = Wait::start(asked, refuser)?;
        poll_fn(|cx| wait.poll(cx)).await
    }

    /// Waits for all that are not asked elsewhere, then for the others, one after the other.
    async fn wait_for_remote<'a>(
        &'a self,
        asked: Asked<'a, '_>,
        held: &mut Permits<'a>,
    ) -> Result<(), Denied> {
        let members = &self.leaves.members;
        let first = (0..members.len()).find(|&index| asked.cost(index).is_some());
        let Some(first) = first else {
            return Ok(());
        };
        let left = Left::at(asked.like(), members[first].one().clock().precise_now());
        let remote = self.leaves.local..members.len();
        let began = remote.map(|index| asked.member(index).clock().precise_now());
        let began: Vec<_> = began.collect();
        let taken = match attempt(asked, false) {
            Ok(taken) => taken,
            Err((refuser, _)) => self.wait_for_local(asked, refuser).await?,
        };
        let gathering = Gathering(held);
        self.hold(asked, taken, gathering.0);
        for (index, began) in (self.leaves.local..members.len()).zip(began) {
            let Some(demand) = asked.demand(index) else {
                continue;
            };
            match members[index].limiter.acquire(left.of(demand, began)).await {
                Ok(permit) => gathering.0.push(permit),
                Err(denied) => return Err(refuse(asked, index, denied)),
            }
        }
        gathering.complete();
        self.count_granted(asked.demands);
        Ok(())
    }
}

/// What was granted so far. If the rest does not come, it was for nothing.
struct Gathering<'h, 'a>(&'h mut Permits<'a>);

impl Gathering<'_, '_> {
    /// All have granted.
    fn complete(self) {
        let _complete = std::mem::ManuallyDrop::new(self);
    }
}

impl Drop for Gathering<'_, '_> {
    fn drop(&mut self) {
        self.0.undo_all();
    }
}
