//! A partition takes from its share first, then from the gate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::shares::Shares;
use crate::name::Name;
use crate::{
    Demand, Denied, Gate, Grant, Metadata, Moment, Outcome, Permit, Reason, Refusal, Rule,
    Shareable, Source,
};

/// The state that the partitions of one limit share.
pub(super) struct Shared<R: Rule> {
    pub(super) gate: Gate<R>,
    pub(super) names: Box<[Name]>,
    pub(super) shares: Mutex<Shares>,
}

pub(super) struct Part<R: Rule> {
    pub(super) shared: Arc<Shared<R>>,
    pub(super) index: usize,
    pub(super) me: Weak<Self>,
}

/// An amount that a partition has set aside of the shares before the gate has granted it. Dropping it releases the
/// amount.
pub(super) struct Claim<'a, R: Rule> {
    part: &'a Part<R>,
    cost: u64,
}

impl<R: Rule> Claim<'_, R> {
    /// Converts the claim into `granted` permits: more than it set aside, if the limit has grown meanwhile.
    fn fulfil(mut self, granted: u64) {
        let more = granted.saturating_sub(std::mem::take(&mut self.cost));
        if more > 0 {
            lock(&self.part.shared.shares).add(self.part.index, more);
        }
    }
}

impl<R: Rule> Drop for Claim<'_, R> {
    fn drop(&mut self) {
        self.part.release(self.cost);
    }
}

impl<R: Rule> Part<R> {
    pub(super) fn name(&self) -> Name {
        self.shared.names[self.index]
    }

    fn release(&self, cost: u64) {
        if cost > 0 {
            lock(&self.shared.shares).release(self.index, cost);
        }
    }

    pub(super) fn claim(&self, demand: Demand) -> Result<Claim<'_, R>, Denied> {
        let gate = &self.shared.gate;
        let (now, limit, cost) = (gate.now(), gate.limit(), demand.cost);
        // A cost above the limit is refused by the gate.
        let claimed = if cost > limit {
            Ok(0)
        } else {
            let claimed = lock(&self.shared.shares).claim(self.index, demand, limit, now);
            claimed.map(|()| cost)
        };
        match claimed {
            Ok(cost) => Ok(Claim { part: self, cost }),
            Err(remaining) => Err(self.exhausted(limit, remaining, now)),
        }
    }

    pub(super) fn exhausted(&self, limit: u64, remaining: u64, now: Moment) -> Denied {
        let refusal = Refusal::until_returned().with_reason(Reason::Exhausted);
        Denied::from_rule(refusal, now, (limit, remaining), Some(self.name()))
    }

    /// Wraps a permit of the gate as one of this partition.
    pub(super) fn adopt(&self, claim: Claim<'_, R>, permit: Permit<'_>) -> Permit<'_> {
        let grant = permit.grant();
        permit.forget();
        claim.fulfil(grant.cost);
        Permit::new(self, grant, true)
    }

    pub(super) async fn acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let claim = self.claim(demand)?;
        let permit = self.shared.gate.acquire(demand).await?;
        Ok(self.adopt(claim, permit))
    }
}

impl<R: Rule> Source for Part<R> {
    fn give_back(&self, grant: Grant, outcome: Outcome) {
        // Released before the gate may wake a task that asks for it.
        self.release(grant.cost);
        self.shared.gate.source().give_back(grant, outcome);
    }

    fn undo(&self, grant: Grant, whole: bool) {
        self.release(grant.cost);
        self.shared.gate.source().undo(grant, whole);
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.name().metadata()
    }
}

impl<R: Rule> Shareable for Part<R> {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("a part lives in an Arc"),
        }
    }
}

pub(super) fn lock(shares: &Mutex<Shares>) -> MutexGuard<'_, Shares> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}
