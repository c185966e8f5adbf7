use std::sync::Arc;

use plimsoll::{Demand, Denied, Grant, Moment, Permit, Reason, Standing};

use super::FleetKey;
use super::inner::Inner;
use super::source::Origin;
use super::wait::because;
use crate::borrow::{Fetch, LocalResult, Tag};
use crate::charge::Borrowed;
use crate::many::Subject;
use crate::outage::Fallback;
use crate::{StoreAnswer, StoreErrorKind};

/// One key of a decision, with its cost and its answer.
pub(super) struct Entry {
    pub(super) inner: Arc<Inner>,
    pub(super) key: Arc<[u8]>,
    /// The name of the key in the store.
    pub(super) stored: Vec<u8>,
    pub(super) cost: u64,
    pub(super) shadow: bool,
    closed: Option<Denied>,
    pub(super) answer: Option<StoreAnswer>,
    pub(super) permit: Option<Permit<'static>>,
    /// The batch that the reply of the store brings.
    pub(super) fetch: Option<Fetch>,
}

impl Entry {
    pub(super) fn new(
        key: &FleetKey,
        inner: Arc<Inner>,
        stored: Vec<u8>,
        cost: u64,
        shadow: bool,
    ) -> Self {
        Self {
            inner,
            key: Arc::clone(&key.key),
            stored,
            cost,
            shadow,
            closed: key.check_open().err(),
            answer: None,
            permit: None,
            fetch: None,
        }
    }

    /// Adds another ask for this key. It is in shadow mode only if all of its asks are.
    pub(super) fn add(&mut self, cost: u64, shadow: bool) {
        self.cost = self.cost.saturating_add(cost);
        self.shadow &= shadow;
    }

    /// The answer if the decision is abandoned.
    pub(super) fn given_up(&self, reason: Reason) -> StoreAnswer {
        self.known().refused(because(reason, &self.inner.unknown()))
    }

    fn demand(&self, like: Demand) -> Demand {
        like.cost(self.cost)
    }

    pub(super) fn grant(&self, like: Demand) -> Grant {
        self.inner.grant(self.demand(like))
    }

    pub(super) fn refuses(&self) -> bool {
        let refused = |answer: &StoreAnswer| !answer.grants();
        !self.shadow && self.answer.as_ref().is_some_and(refused)
    }

    /// The answer from local knowledge, without the store.
    pub(super) fn known(&self) -> StoreAnswer {
        StoreAnswer {
            standing: self.inner.standing(&self.key),
            denied: None,
            shadow: self.shadow,
            fence: None,
            cause: None,
        }
    }

    /// Refuses a cost that the limit can never grant, and demands on a closed limiter.
    pub(super) fn refuse_here(&mut self) {
        let limit = self.inner.limiter().limit();
        let denied = self.closed.take().or_else(|| {
            let large = because(Reason::TooLarge, &self.inner.unknown());
            (self.cost > limit).then_some(large)
        });
        self.answer = denied.map(|denied| self.known().refused(denied));
    }

    /// Takes a borrowed permit.
    pub(super) fn take_here(&mut self, like: Demand) {
        let Some(lender) = self.inner.lender.as_ref().filter(|_| self.answer.is_none()) else {
            return;
        };
        match lender.take_here(&self.key, self.cost) {
            LocalResult::Granted(tag, standing) => {
                self.inner.report_granted(&self.key, standing);
                self.grant_from_stock(like, tag, standing);
            }
            LocalResult::Refused(denied) => {
                self.inner.report_refused(&self.key, &denied);
                self.answer = Some(self.known().refused(denied));
            }
            LocalResult::Ask(fetch) => self.fetch = fetch.filter(|_| !self.shadow),
        }
    }

    fn grant_from_stock(&mut self, like: Demand, tag: Tag, standing: Option<Standing>) {
        let (demand, origin) = (self.demand(like), Origin::Stock(tag));
        self.permit = Some(self.inner.permit(&self.key, demand, standing, origin));
        let mut answer = self.known();
        if let Some(standing) = standing {
            answer.standing = self.inner.promised(standing);
        }
        self.answer = Some(answer);
    }

    pub(super) fn peek_here(&mut self) {
        self.refuse_here();
        let Some(lender) = self.inner.lender.as_ref().filter(|_| self.answer.is_none()) else {
            return;
        };
        self.answer = match lender.estimate(&self.key, Demand::of(self.cost)) {
            Some(Ok(())) => Some(self.known()),
            Some(Err(denied)) => Some(self.known().refused(denied)),
            None => None,
        };
    }

    /// Records the decision of the store, unless there is an answer already.
    pub(super) fn answered(&mut self, like: Demand, asked: Moment, subject: Subject) {
        let fetch = self.fetch.take();
        if self.answer.is_some() {
            return;
        }
        let answer = subject.answer();
        if let Some(denied) = &answer.denied {
            match (fetch, &self.inner.lender) {
                (Some(fetch), _) => fetch.denied(asked, denied),
                (None, Some(lender)) => lender.learn(&self.key, asked, self.cost, denied),
                (None, None) => {}
            }
        } else if let Some(taken) = subject.taken() {
            if let Some(fetch) = fetch {
                let batch = Borrowed {
                    amount: taken.amount,
                    taken: taken.at,
                    standing: subject.granted_standing().unwrap_or_default(),
                };
                let (tag, _) = fetch.taken(asked, &batch, self.cost);
                self.grant_from_stock(like, tag, None);
            } else if let Some(permit) = subject.into_permit() {
                let demand = self.demand(like);
                self.permit = Some(self.inner.granted(&self.key, demand, permit));
            }
        }
        self.answer = Some(answer);
    }

    /// Decides by the outage setting, because the store did not.
    pub(super) fn without_store(&mut self, like: Demand, cause: StoreErrorKind) {
        if let Some(fetch) = self.fetch.take() {
            fetch.failed(cause);
        }
        let mut answer = self.known();
        match self.inner.without_store(&self.key, self.demand(like)) {
            Ok(permit) => {
                answer.standing = permit.standing().unwrap_or(answer.standing);
                self.permit = Some(permit);
            }
            Err(denied) => answer = answer.refused(denied),
        }
        answer.cause = Some(cause);
        self.answer = Some(answer);
    }

    pub(super) fn peek_without_store(&mut self, cause: StoreErrorKind) {
        let mut answer = self.known();
        let refuses = match &self.inner.fallback {
            Fallback::Admit => false,
            Fallback::Deny => true,
            Fallback::Local(local) => {
                answer.standing = local.standing(&self.key);
                answer.standing.remaining < Some(self.cost.max(1))
            }
        };
        if refuses {
            answer = answer.refused(self.inner.unknown());
        }
        answer.cause = Some(cause);
        self.answer = Some(answer);
    }
}
