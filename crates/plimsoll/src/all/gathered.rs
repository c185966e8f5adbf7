//! One permit for members that were granted at different moments, or by stores.
//!
//! A grant of a store is identified only by its permit, so the permits themselves are held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Members;
use crate::limiter::Several;
use crate::together::Permits;
use crate::{Demand, Grant, LeaseState, Moment, Outcome, Permit, Source};

impl Members {
    /// One permit for several, granted at the moment of the first unless another is passed.
    pub(super) fn gathered(
        &self,
        permits: Permits<'_>,
        demand: Demand,
        taken: Option<Moment>,
    ) -> Permit<'_> {
        self.gathered_owned(
            permits.into_each().map(Permit::into_owned).collect(),
            demand,
            taken,
        )
    }

    pub(super) fn gathered_owned(
        &self,
        permits: Vec<Permit<'static>>,
        demand: Demand,
        taken: Option<Moment>,
    ) -> Permit<'static> {
        let taken = taken.or_else(|| permits.first().map(Permit::granted_at));
        let grant = demand.granted(taken.unwrap_or_else(|| self.clock().now()));
        self.totals.granted();
        self.tell_granted(demand);
        let gathered = Gathered::new(self.shared(), permits, demand.cost);
        Permit::shared(Arc::new(gathered), grant, true)
    }
}

/// The permits behind one permit.
struct Gathered {
    members: Arc<Members>,
    behind: Mutex<Vec<Behind>>,
}

/// One of the permits, and how many times its cost counts.
struct Behind {
    permit: Permit<'static>,
    times: u64,
}

impl Gathered {
    /// The sources of a permit of `cost`.
    fn new(members: Arc<Members>, permits: Vec<Permit<'static>>, cost: u64) -> Self {
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

    /// Takes `cost` out of each; with `whole`, the whole grant.
    fn each(&self, cost: u64, whole: bool, end: impl Fn(Permit<'static>)) {
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
        // A task that this wakes must not find it locked.
        drop(behind);
        parts.into_iter().for_each(end);
    }
}

impl Source for Gathered {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.each(grant.cost, true, |permit| permit.finish(outcome));
        self.members.tell_processed(grant, outcome);
    }

    fn undo(&self, grant: Grant, whole: bool) {
        if whole {
            self.members.count_undone();
            self.members
                .group
                .several()
                .for_each(|it| it.count_undone());
        }
        self.each(grant.cost, whole, Permit::undo);
        self.members.tell_processed(grant, Outcome::Ignore);
    }

    fn leases(&self, each: &mut dyn FnMut(&LeaseState)) {
        let behind = self.behind();
        let leases = behind.iter().flat_map(|one| one.permit.leases());
        let leases: Vec<_> = leases.collect();
        drop(behind);
        leases.iter().for_each(each);
    }
}

/// The permits that are left were forgotten.
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
