//! Members that have to be asked elsewhere.
//!
//! What they grant is known only to the permit that comes with it, so the permits themselves are kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Members;
use crate::together::{Left, List, attempt, refuse, unexplained};
use crate::{Demand, Denied, Grant, LeaseState, Moment, Outcome, Permit, Source};

impl Members {
    /// Takes from all that are here, waiting where one refuses, then from those elsewhere, one after the other.
    pub(super) async fn gather(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let asked = self.asked(demand);
        let local = self.leaves.local;
        let left = Left::at(demand, self.clock().precise_now());
        let elsewhere = self.leaves.members[local..].iter();
        let deadlines: Vec<_> = elsewhere
            .map(|member| left.of(demand, member.one().clock().precise_now()))
            .collect();
        let mut gathered = Gathering::of(Vec::with_capacity(self.leaves.members.len()));
        let mut taken = match attempt(asked, demand.is_at_once()) {
            Ok(taken) => taken,
            Err((_, denied)) if demand.is_at_once() => {
                return Err(denied.unwrap_or_else(unexplained));
            }
            Err((refuser, _)) => {
                let now = self.leaves.members[0].one().clock().precise_now();
                self.wait(left.of(demand, now), refuser).await?
            }
        };
        gathered.hold(|permits| {
            let each = (0..local).filter_map(|index| taken.permit(asked, index));
            permits.extend(each.map(Permit::into_owned));
        });
        for (index, like) in (local..self.leaves.members.len()).zip(deadlines) {
            let member = &self.leaves.members[index];
            let Some(cost) = asked.demand(index).map(Demand::cost) else {
                continue;
            };
            let like = if demand.is_at_once() { demand } else { like };
            match member.limiter.acquire_owned(Demand { cost, ..like }).await {
                Ok(permit) => gathered.hold(|permits| permits.push(permit)),
                Err(denied) => return Err(refuse(asked, index, denied)),
            }
        }
        Ok(self.gathered(gathered, demand, None))
    }

    /// Takes from all, of those elsewhere what is known here.
    pub(super) fn gather_known(&self, demand: Demand, note: bool) -> Result<Permit<'_>, Denied> {
        let asked = self.asked(demand);
        let local = self.leaves.local;
        let mut gathered = Gathering::of(Vec::with_capacity(self.leaves.members.len()));
        let taken = attempt(asked, note);
        let mut taken = taken.map_err(|(_, denied)| denied.unwrap_or_else(unexplained))?;
        gathered.hold(|permits| {
            let each = (0..local).filter_map(|index| taken.permit(asked, index));
            permits.extend(each.map(Permit::into_owned));
        });
        for index in local..self.leaves.members.len() {
            let member = &self.leaves.members[index];
            let Some(demand) = asked.demand(index) else {
                continue;
            };
            let answer = if note {
                member.limiter.try_acquire(demand)
            } else {
                member.limiter.attempt(demand)
            };
            match answer {
                Ok(permit) => gathered.hold(|permits| permits.push(permit.into_owned())),
                Err(denied) => return Err(refuse(asked, index, denied)),
            }
        }
        Ok(self.gathered(gathered, demand, None))
    }

    /// One permit of several, granted when the first of them was if nothing else is said.
    pub(super) fn gathered(
        &self,
        mut gathering: Gathering,
        demand: Demand,
        taken: Option<Moment>,
    ) -> Permit<'_> {
        let permits = std::mem::take(&mut gathering.0);
        let taken = taken.or_else(|| permits.first().map(Permit::granted_at));
        let grant = demand.granted(taken.unwrap_or_else(|| self.clock().now()));
        self.count_granted();
        let gathered = Gathered::new(self.shared(), permits, demand.cost);
        Permit::shared(Arc::new(gathered), grant, true)
    }
}

/// What was granted so far. If the rest does not come, it was for nothing.
pub(super) struct Gathering(Vec<Permit<'static>>);

impl Gathering {
    pub(super) const fn of(permits: Vec<Permit<'static>>) -> Self {
        Self(permits)
    }

    fn hold(&mut self, more: impl FnOnce(&mut Vec<Permit<'static>>)) {
        more(&mut self.0);
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        for permit in self.0.drain(..).rev() {
            permit.undo();
        }
    }
}

/// The permits behind one permit.
struct Gathered {
    members: Arc<Members>,
    behind: Mutex<Vec<Behind>>,
}

/// One of them, and how many times it was asked for.
struct Behind {
    permit: Permit<'static>,
    times: u32,
}

impl Gathered {
    /// Those behind a permit of `cost`.
    fn new(members: Arc<Members>, permits: Vec<Permit<'static>>, cost: u32) -> Self {
        let behind = permits.into_iter().map(|permit| Behind {
            times: permit.cost().checked_div(cost).unwrap_or(1),
            permit,
        });
        Self {
            members,
            behind: Mutex::new(behind.collect()),
        }
    }

    fn behind(&self) -> MutexGuard<'_, Vec<Behind>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so much out of each; with `whole`, what was granted as a whole.
    fn each(&self, cost: u32, whole: bool, end: impl Fn(Permit<'static>)) {
        let mut behind = self.behind();
        let mut parts = Vec::with_capacity(behind.len());
        for at in (0..behind.len()).rev() {
            let one = &mut behind[at];
            let part = cost.saturating_mul(one.times);
            if part == one.permit.cost() && whole {
                parts.push(behind.remove(at).permit);
            } else {
                parts.extend(one.permit.split(part));
            }
        }
        // Whatever this wakes must not find it locked.
        drop(behind);
        parts.into_iter().for_each(end);
    }
}

impl Source for Gathered {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.each(grant.cost, true, |permit| permit.finish(outcome));
    }

    fn undo(&self, grant: Grant, whole: bool) {
        if whole {
            self.members.count_undone();
        }
        self.each(grant.cost, whole, Permit::undo);
    }

    fn leases(&self, each: &mut dyn FnMut(&LeaseState)) {
        let behind = self.behind();
        let leases = behind.iter().flat_map(|one| one.permit.leases());
        let leases: Vec<_> = leases.collect();
        drop(behind);
        leases.iter().for_each(each);
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        let mut behind = self.behind();
        Arc::new(Self {
            members: Arc::clone(&self.members),
            behind: Mutex::new(std::mem::take(&mut *behind)),
        })
    }
}

/// What is left was forgotten.
impl Drop for Gathered {
    fn drop(&mut self) {
        let behind = self
            .behind
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for one in behind.drain(..) {
            one.permit.forget();
        }
    }
}
