use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::{
    Clock, Demand, Denied, Grant, InvalidLimit, Moment, Permit, Reason, Snapshot, Standing,
};

use super::FleetBuilder;
use super::source::{FleetSource, Hold, Origin};
use super::wait::Waiting;
use crate::background::Background;
use crate::borrow::{Known, Lender, Tag, Taken};
use crate::outage::Fallback;
use crate::undo::UndoOnDrop;
use crate::{Decision, RedisLimiter, RedisPermit, StoreError};

/// Counters of a [`Fleet`](super::Fleet) in this process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct FleetTotals {
    /// Demands that were granted.
    pub granted: u64,
    /// Demands that were refused.
    pub denied: u64,
    /// Demands that the store did not decide, so that [`Outage`](crate::Outage) did. They also count as granted or refused.
    pub undecided: u64,
    /// Returns and charges that failed: the number of calls, not the amount.
    pub lost: u64,
    /// Keys with borrowed permits or a remembered refusal.
    pub keys: u64,
}

#[derive(Default)]
pub(super) struct FleetCounts {
    granted: AtomicU64,
    denied: AtomicU64,
    undecided: AtomicU64,
    lost: AtomicU64,
}

/// The limit of a fleet, until it is replaced.
pub(crate) struct Inner {
    limiter: RedisLimiter,
    pub(super) clock: Clock,
    pub(super) fallback: Fallback,
    promise: Standing,
    pub(super) lender: Option<Arc<Lender>>,
    pub(super) waiting: Option<Waiting>,
    background: Background,
    counts: Arc<FleetCounts>,
    /// The refusal if only the store could decide. Built once, because building it looks up the name.
    unknown: Denied,
}

impl Inner {
    pub(super) fn new(
        settings: FleetBuilder,
        counts: Arc<FleetCounts>,
    ) -> Result<Self, InvalidLimit> {
        let limiter = settings.limiter;
        let clock = limiter.store().clock();
        let (name, rule) = (limiter.name(), limiter.rule());
        let unknown = Denied::new(Reason::Unavailable)
            .with_limit(limiter.limit(), 0)
            .with_limiter(name);
        Ok(Self {
            fallback: settings.outage.prepare(&rule, name, &clock)?,
            promise: rule.promise(),
            lender: match settings.borrow {
                Some(borrow) => Some(Arc::new(borrow.lender(&limiter)?)),
                None => None,
            },
            waiting: Waiting::up_to(settings.waiting),
            background: Background::default(),
            counts,
            unknown,
            clock,
            limiter,
        })
    }

    pub(super) fn limiter(&self) -> &RedisLimiter {
        &self.limiter
    }

    pub(super) fn counts(&self) -> Arc<FleetCounts> {
        Arc::clone(&self.counts)
    }

    pub(super) fn promise(&self) -> Standing {
        self.promise
    }

    pub(super) fn background(&self) -> &Background {
        &self.background
    }

    pub(super) fn unknown(&self) -> Denied {
        self.unknown.clone()
    }

    pub(super) fn totals(&self) -> FleetTotals {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let lender = self.lender.as_ref();
        FleetTotals {
            granted: read(&self.counts.granted),
            denied: read(&self.counts.denied),
            undecided: read(&self.counts.undecided),
            lost: read(&self.counts.lost) + lender.map_or(0, |lender| lender.lost()),
            keys: lender.map_or(0, |lender| lender.keys()),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let limit = self.limiter.limit();
        let totals = self.totals();
        let (waiters, bound) = self.waiting.as_ref().map_or((0, 0), Waiting::count);
        Snapshot::of(limit, limit)
            .with_totals(totals.granted, totals.denied)
            .with_waiters(waiters, bound)
    }

    /// Emits the event of a grant from borrowed permits.
    pub(super) fn report_granted(&self, key: &[u8], standing: Option<Standing>) {
        if let Some(reporter) = self.limiter.reporter(key) {
            let _ = reporter.granted(standing.unwrap_or(self.promise), false);
        }
    }

    /// Emits the event of a local refusal.
    pub(super) fn report_refused(&self, key: &[u8], denied: &Denied) {
        if let Some(reporter) = self.limiter.reporter(key) {
            reporter.refused(denied);
        }
    }

    /// Decides without the store, if possible. Does not count refusals.
    pub(super) fn attempt(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
    ) -> Result<Permit<'static>, Denied> {
        // A permit with a lease needs the reply of the store.
        if self.promise.returns {
            return Err(self.unknown());
        }
        if let Some(lender) = &self.lender {
            match lender.attempt(key, demand.cost) {
                Known::Granted(tag, standing) => {
                    self.report_granted(key, standing);
                    let permit = self.permit(key, demand, standing, Origin::Stock(tag));
                    return self.counted(Ok(permit));
                }
                Known::Refused(denied) => return Err(denied),
                Known::Nothing => {}
            }
        }
        if self.is_asked(key) {
            return Err(self.unknown());
        }
        self.counted(Ok(self.without_store(key, demand)?))
    }

    /// Returns what `attempt` would decide. Takes nothing.
    pub(super) fn estimate(&self, key: &Arc<[u8]>, demand: Demand) -> Result<(), Denied> {
        let lender = self.lender.as_ref();
        if let Some(known) = lender.and_then(|lender| lender.estimate(key, demand)) {
            return known;
        }
        let admits = matches!(self.fallback, Fallback::Admit) && !self.promise.returns;
        if admits && !self.is_asked(key) {
            return Ok(());
        }
        Err(self.unknown())
    }

    /// Whether a call for a key would be sent to the store.
    fn is_asked(&self, key: &[u8]) -> bool {
        let store = self.limiter.store();
        store.is_asked_for(|| self.limiter.key(key))
    }

    /// Makes one decision, without waiting for a retry.
    pub(super) async fn ask(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
    ) -> Result<Permit<'static>, Denied> {
        match self.decide(key, demand).await {
            Ok(answer) => answer,
            Err(_) => self.without_store(key, demand),
        }
    }

    async fn decide(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
    ) -> Result<Result<Permit<'static>, Denied>, StoreError> {
        let asked = self.clock.precise_now();
        if let Some(lender) = &self.lender {
            match lender.take(key, demand.cost).await? {
                Taken::Granted(tag, standing) => {
                    self.report_granted(key, standing);
                    return Ok(Ok(self.permit(key, demand, standing, Origin::Stock(tag))));
                }
                Taken::Refused(denied) => {
                    self.report_refused(key, &denied);
                    return Ok(Err(denied));
                }
                Taken::AskStore => {}
            }
        }
        let decision = self.ask_store(key, demand.cost).await?;
        let answer = decision.into_result();
        if let (Some(lender), Err(denied)) = (&self.lender, &answer) {
            lender.learn(key, asked, demand.cost, denied);
        }
        Ok(answer.map(|permit| self.granted(key, demand, permit)))
    }

    /// The permit for a grant of the store.
    pub(super) fn granted(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
        permit: RedisPermit,
    ) -> Permit<'static> {
        let standing = Some(permit.standing());
        let origin = if self.promise.returns {
            Origin::Lease(Arc::new(Hold::new(permit)))
        } else {
            Origin::Store(permit.taken())
        };
        self.permit(key, demand, standing, origin)
    }

    /// Calls the store. Undoes the grant if the caller drops the future before the reply.
    async fn ask_store(&self, key: &Arc<[u8]>, cost: u64) -> Result<Decision, StoreError> {
        let (asked, subject) = (self.limiter.clone(), Arc::clone(key));
        let (limiter, key) = (self.limiter.clone(), Arc::clone(key));
        let question = async move { asked.decide(subject, cost).await };
        let undo = move |answer| async move {
            // Dropping a permit with a lease releases it.
            if let Ok(Decision::Granted(permit)) = answer {
                let given_back = limiter.put_back(&key, permit.cost(), permit.taken());
                // No caller is left to report an error to.
                let _ = given_back.await;
            }
        };
        UndoOnDrop::new(question, undo).await
    }

    pub(super) fn permit(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
        standing: Option<Standing>,
        origin: Origin,
    ) -> Permit<'static> {
        // A local grant is part of this process's share and not of the whole limit.
        let standing = match origin {
            Origin::Local => standing,
            _ => standing.map(|standing| self.promised(standing)),
        };
        let source = FleetSource {
            inner: Arc::clone(self),
            key: Arc::clone(key),
            standing,
            origin,
        };
        source.permit(self.grant(demand))
    }

    pub(super) fn grant(&self, demand: Demand) -> Grant {
        Grant::of(demand).taken(self.clock.now())
    }

    /// Decides by the outage setting.
    pub(super) fn without_store(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
    ) -> Result<Permit<'static>, Denied> {
        self.counts.undecided.fetch_add(1, Ordering::Relaxed);
        match &self.fallback {
            Fallback::Admit => Ok(Permit::spent(self.grant(demand))),
            Fallback::Deny => Err(self.unknown()),
            Fallback::Local(local) => {
                let permit = local.try_acquire(key, demand)?;
                if !permit.is_spent() {
                    return Ok(permit.into_owned());
                }
                let standing = Some(local.standing(key));
                Ok(self.permit(key, demand, standing, Origin::Local))
            }
        }
    }

    pub(super) fn counted(
        &self,
        answer: Result<Permit<'static>, Denied>,
    ) -> Result<Permit<'static>, Denied> {
        let count = match &answer {
            Ok(_) => &self.counts.granted,
            Err(_) => &self.counts.denied,
        };
        count.fetch_add(1, Ordering::Relaxed);
        answer
    }

    pub(super) fn undo_locally(&self, key: &[u8], grant: Grant) {
        if let Fallback::Local(local) = &self.fallback {
            local.undo(key, Permit::spent(grant));
        }
    }

    pub(super) fn return_to_stock(&self, key: &Arc<[u8]>, cost: u64, tag: Tag) {
        if let (Some(lender), 1..) = (&self.lender, cost) {
            lender.put_back(key, cost, tag);
        }
    }

    pub(super) async fn return_borrowed(&self) -> Result<(), StoreError> {
        match &self.lender {
            Some(lender) => lender.give_back_all().await,
            None => Ok(()),
        }
    }

    /// The standing of a key, as far as it is known in this process.
    pub(super) fn standing(&self, key: &[u8]) -> Standing {
        let known = self.lender.as_ref().and_then(|lender| lender.standing(key));
        known.map_or(self.promise, |standing| self.promised(standing))
    }

    /// Completes a standing of the store with the fields that the rule determines.
    pub(super) fn promised(&self, standing: Standing) -> Standing {
        self.promise
            .remaining(standing.remaining)
            .more_after(standing.more_after)
            .reset(standing.reset)
    }

    /// Undoes a grant in the store, in the background.
    pub(super) fn put_back(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64, taken: Moment) {
        if cost == 0 {
            return;
        }
        let (inner, key) = (Arc::clone(self), Arc::clone(key));
        self.in_background(async move {
            let answer = inner.limiter.put_back(&key, cost, taken).await;
            if let Some(lender) = &inner.lender {
                lender.forget_refusal(&key);
            }
            inner.count_lost(answer.is_err());
        });
    }

    /// Charges in the background; during an outage, the share of this process.
    pub(super) fn charge(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64) {
        let lender = self.lender.as_ref();
        let cost = lender.map_or(cost, |lender| lender.charge(key, cost));
        if self.promise.returns || cost == 0 {
            return;
        }
        let (inner, key) = (Arc::clone(self), Arc::clone(key));
        self.in_background(async move {
            let answer = inner.limiter.charge(&key, cost).await;
            match (&answer, &inner.fallback) {
                (Err(_), Fallback::Local(local)) => local.charge(&key, cost),
                (answer, _) => inner.count_lost(answer.is_err()),
            }
        });
    }

    /// Refunds up to the limit, in the background.
    pub(super) fn refund(self: &Arc<Self>, key: &Arc<[u8]>, amount: u64) {
        if self.promise.returns || amount == 0 {
            return;
        }
        let (inner, key) = (Arc::clone(self), Arc::clone(key));
        self.in_background(async move {
            let answer = inner.limiter.add(&key, amount).await;
            inner.count_lost(answer.is_err());
        });
    }

    fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let spawned = self.background.spawn(task);
        self.count_lost(!spawned);
    }

    fn count_lost(&self, lost: bool) {
        self.counts
            .lost
            .fetch_add(u64::from(lost), Ordering::Relaxed);
    }
}
