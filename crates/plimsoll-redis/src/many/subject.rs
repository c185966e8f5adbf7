use std::sync::Arc;

use plimsoll::{Moment, Standing};

use super::StoreAnswer;
use crate::answer::{Answer, Decided};
use crate::batch::Demand;
use crate::event_reports::{Reporter, ReturnEvent};
use crate::group::Member;
use crate::lease::Lease;
use crate::limiter::fence;
use crate::rule::{RuleKind, amount, moment};
use crate::terms::Terms;
use crate::{RedisLimiter, RedisPermit, StoreError, StoreErrorKind};

/// One limit and key of a decision, with the cost and the answer.
pub(crate) struct Subject {
    limiter: RedisLimiter,
    terms: Arc<Terms>,
    key: Vec<u8>,
    /// The total cost. It may exceed the limit.
    cost: u64,
    shadow: bool,
    /// The maximum to borrow with the decision.
    most: Option<u64>,
    /// The id of its lease, if the limit has leases.
    id: String,
    lease: Option<Lease>,
    /// The last answer of the store.
    answer: Option<Decided>,
    /// The reason why the store did not answer.
    failed: Option<StoreErrorKind>,
    taken: Option<Taken>,
    /// Emits the event of the decision, if there are subscribers.
    reporter: Option<Reporter>,
    /// Emits the event of the lease's return when it is dropped.
    return_event: Option<ReturnEvent>,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// The cost, and the batch that was borrowed with it.
    pub(crate) amount: u64,
    /// The time of the grant, on the clock of the store.
    pub(crate) at: Moment,
}

/// The operation of a script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Take,
    Peek,
    Charge,
    Undo,
}

impl Verb {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Take => "take",
            Self::Peek => "peek",
            Self::Charge => "charge",
            Self::Undo => "undo",
        }
    }
}

impl Subject {
    pub(crate) fn new(limiter: &RedisLimiter, key: Vec<u8>, cost: u64, shadow: bool) -> Self {
        Self {
            limiter: limiter.clone(),
            terms: limiter.terms(),
            key,
            cost,
            shadow,
            most: None,
            id: String::new(),
            lease: None,
            answer: None,
            failed: None,
            taken: None,
            reporter: None,
            return_event: None,
        }
    }

    /// Sets the reporter for the event of the decision.
    pub(crate) fn reported_by(mut self, reporter: Option<Reporter>) -> Self {
        self.reporter = reporter;
        self
    }

    /// Emits the event of the decision: of an admitted one only if this subject was taken, of a refused one only if it refused.
    pub(super) fn report(&mut self, admitted: bool) {
        let Some(reporter) = self.reporter.take() else {
            return;
        };
        match &self.answer {
            Some(Decided::Granted(standing, _)) if admitted => {
                self.return_event = reporter.granted(*standing, self.lease.is_some());
            }
            Some(Decided::Refused(refused)) if !admitted && !self.shadow => {
                reporter.refused(&refused.denied(self.limit(), self.limiter.name()));
            }
            _ => {}
        }
    }

    /// Moves the return event to the new holder of the lease.
    pub(crate) fn take_return_event(&mut self) -> Option<ReturnEvent> {
        self.return_event.take()
    }

    /// Adds another ask for this subject. It is in shadow mode only if all of its asks are.
    pub(super) fn add(&mut self, cost: u64, shadow: bool) {
        self.cost = self.cost.saturating_add(cost);
        self.shadow &= shadow;
    }

    /// Borrows up to `most` with the decision if the same amount remains for others. Has no effect in shadow mode.
    pub(crate) fn borrow(&mut self, most: u64) {
        self.most = Some(most).filter(|_| !self.shadow);
    }

    pub(super) fn limiter(&self) -> &RedisLimiter {
        &self.limiter
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn kind(&self) -> RuleKind {
        self.limiter.kind()
    }

    pub(super) fn is_quick(&self) -> bool {
        self.terms.quick
    }

    /// Whether the subject is enforced, has a cost, does not borrow and has no lease. If it is the only one, it is decided as by
    /// [`RedisLimiter::decide`], whose scripts for one limiter cost less than those for several.
    pub(super) fn is_plain(&self) -> bool {
        !self.shadow && self.is_in_runs()
    }

    /// Whether decisions about it can be answered in runs: see [`Group`](crate::group::Group).
    pub(super) fn is_in_runs(&self) -> bool {
        self.most.is_none() && !self.limiter.holds_leases() && self.cost > 0
    }

    pub(super) async fn decide_alone(&self) -> Result<Decided, StoreError> {
        let demand = Demand {
            key: self.key.clone(),
            cost: self.cost,
            id: String::new(),
            lease: None,
        };
        let (decided, _) = self.limiter.send(&self.terms, demand).await?;
        Ok(decided)
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether the cost exceeds what the limit can ever grant.
    pub(super) fn is_too_large(&self) -> bool {
        self.cost > self.limit()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.is_some()
    }

    pub(super) fn limit(&self) -> u64 {
        self.terms.rule.limit()
    }

    /// Its script arguments.
    pub(super) fn member(&mut self, verb: Verb) -> Member {
        if let (Verb::Take, Some(leases), 1..) = (verb, &self.terms.leases, self.cost) {
            self.id = leases.new_id();
            self.lease = Some(leases.ask(self.key.clone(), &self.id, self.cost));
        }
        let mode = match self.most.filter(|_| verb == Verb::Take) {
            Some(most) => amount(most).to_string(),
            None if self.shadow => "s".to_owned(),
            None => String::new(),
        };
        let mut last = Vec::new();
        if self.limiter.holds_leases() {
            last.push(self.id.clone());
        }
        if verb == Verb::Undo {
            let taken = self.taken;
            last.push(taken.map_or(0, |taken| taken.amount).to_string());
            last.push(taken.map_or_else(String::new, |taken| moment(taken.at)));
        }
        Member {
            cost: amount(self.cost),
            mode,
            rule: Arc::clone(&self.terms.words),
            last,
        }
    }

    /// Reads its part of the reply. `took` is whether the script took from the limits that grant.
    pub(super) fn read(
        &mut self,
        verb: Verb,
        took: bool,
        answer: &mut Answer,
    ) -> Result<(), StoreError> {
        let decided = answer.decided_of_group(self.limit(), self.cost)?;
        let borrowed = match (verb, &decided, self.most) {
            (Verb::Take, Decided::Granted(..), Some(_)) => Some(answer.number()?),
            _ => None,
        };
        self.decided(verb, took, decided, borrowed);
        Ok(())
    }

    /// Records the decision of the store. `borrowed` is the amount taken, if it may exceed the cost.
    pub(super) fn decided(
        &mut self,
        verb: Verb,
        took: bool,
        decided: Decided,
        borrowed: Option<u64>,
    ) {
        let amount = borrowed.unwrap_or(self.cost);
        if let (Verb::Take, true, Decided::Granted(_, at), 1..) = (verb, took, &decided, self.cost)
        {
            self.taken = Some(Taken { amount, at: *at });
            let granted = |lease: Lease| lease.granted(fence(*at));
            self.lease = self.lease.take().map(granted);
        } else {
            // Refused, or taken and undone by the script.
            self.taken = None;
            self.lease.take().into_iter().for_each(Lease::abandon);
        }
        self.answer = Some(decided);
    }

    /// Records that the store did not answer. A lease is released in the background.
    pub(super) fn failed(&mut self, kind: StoreErrorKind) {
        (self.failed, self.taken, self.lease) = (Some(kind), None, None);
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    pub(crate) fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }

    pub(crate) fn taken(&self) -> Option<Taken> {
        self.taken
    }

    /// The permit, if it was granted.
    pub(crate) fn into_permit(mut self) -> Option<RedisPermit> {
        let taken = self.taken?;
        let standing = self.granted_standing().unwrap_or_default();
        let leases = self.take_lease().into_iter().collect();
        let permit = RedisPermit::new(taken.amount, standing, leases).taken_at(taken.at);
        Some(permit.return_events(self.take_return_event()))
    }

    /// The standing after the grant, if it was granted.
    pub(crate) fn granted_standing(&self) -> Option<Standing> {
        match &self.answer {
            Some(Decided::Granted(standing, _)) => Some(*standing),
            _ => None,
        }
    }

    pub(crate) fn answer(&self) -> StoreAnswer {
        let promise = self.terms.promise;
        let mut answer = StoreAnswer {
            standing: promise,
            denied: None,
            shadow: self.shadow,
            fence: self.lease().and_then(Lease::state).map(|it| it.fence()),
            cause: self.failed,
        };
        match &self.answer {
            Some(Decided::Granted(standing, _)) => {
                answer.standing = promise
                    .remaining(standing.remaining)
                    .more_after(standing.more_after)
                    .reset(standing.reset);
            }
            Some(Decided::Refused(refused)) => {
                let denied = refused.denied(self.limit(), self.limiter.name());
                answer.standing = promise.remaining(denied.remaining()).reset(denied.reset());
                answer.denied = Some(denied);
            }
            None => {}
        }
        answer
    }
}
