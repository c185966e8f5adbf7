//! Members that have to be asked elsewhere.
//!
//! What they grant is known only to the permit that comes with it, so the permits themselves are kept.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Ask, Members};
use crate::{Demand, Denied, Grant, LeaseState, Moment, Outcome, Permit, Source};

impl Members {
    /// Takes from all that are here, waiting where one refuses, then from those elsewhere, one after the other.
    pub(super) async fn gather(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let mut gathered = Gathering(Vec::with_capacity(self.members.len() - self.here + 1));
        if self.here > 0 {
            let here = self.wait_here(demand).await?;
            gathered.0.push(here.into_owned());
        }
        for index in self.here..self.members.len() {
            match self.members[index].acquire_owned(demand).await {
                Ok(permit) => gathered.0.push(permit),
                Err(denied) => return Err(self.explain(index, denied, demand)),
            }
        }
        let taken = gathered.taken().unwrap_or_else(|| self.clock().now());
        Ok(self.gathered(gathered, demand, taken))
    }

    /// Takes from all, of those elsewhere what is known here.
    pub(super) fn gather_known<'a>(
        &'a self,
        demand: Demand,
        ask: Ask<'a>,
    ) -> Result<Permit<'a>, Denied> {
        let mut gathered = Gathering(Vec::with_capacity(self.members.len()));
        for (index, member) in self.members.iter().enumerate() {
            match ask(&**member, demand) {
                Ok(permit) => gathered.0.push(permit.into_owned()),
                Err(denied) => return Err(self.explain(index, denied, demand)),
            }
        }
        let taken = gathered.taken().unwrap_or_else(|| self.clock().now());
        Ok(self.gathered(gathered, demand, taken))
    }

    pub(super) fn gathered(
        &self,
        mut gathering: Gathering,
        demand: Demand,
        taken: Moment,
    ) -> Permit<'_> {
        let permits = std::mem::take(&mut gathering.0);
        let grant = demand.granted(taken);
        self.totals.granted();
        Permit::shared(Arc::new(Gathered(Mutex::new(permits))), grant, true)
    }
}

/// What was granted so far. If the rest does not come, it was for nothing.
pub(super) struct Gathering(pub(super) Vec<Permit<'static>>);

impl Gathering {
    /// When the first was granted.
    fn taken(&self) -> Option<Moment> {
        self.0.first().map(Permit::granted_at)
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
struct Gathered(Mutex<Vec<Permit<'static>>>);

impl Gathered {
    /// Takes so much out of each.
    fn each(&self, cost: u32, end: impl Fn(Permit<'static>)) {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = permits.iter().all(|permit| permit.cost() == cost);
        let parts: Vec<_> = if all {
            permits.drain(..).rev().collect()
        } else {
            let permits = permits.iter_mut().rev();
            permits.filter_map(|permit| permit.split(cost)).collect()
        };
        // Whatever this wakes must not find it locked.
        drop(permits);
        parts.into_iter().for_each(end);
    }
}

impl Source for Gathered {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        self.each(grant.cost, |permit| permit.finish(outcome));
    }

    fn undo(&self, grant: Grant, _whole: bool) {
        self.each(grant.cost, Permit::undo);
    }

    fn leases(&self, each: &mut dyn FnMut(&LeaseState)) {
        let permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leases: Vec<_> = permits.iter().flat_map(Permit::leases).collect();
        drop(permits);
        leases.iter().for_each(each);
    }

    fn to_shared(&self) -> Arc<dyn Source> {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::new(Self(Mutex::new(std::mem::take(&mut *permits))))
    }
}

/// What is left was forgotten.
impl Drop for Gathered {
    fn drop(&mut self) {
        let permits = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for permit in permits.drain(..) {
            permit.forget();
        }
    }
}
