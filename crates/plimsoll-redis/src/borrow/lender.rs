use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll::{Clock, Demand, Denied, Moment, Standing};

use super::Settings;
use super::portion::{Portion, Tag};
use super::refill::{Fetch, fetched_by};
use super::stock::{Fetched, Stock};
use super::table::Table;
use crate::background::Background;
use crate::{RedisLimiter, StoreError};

/// What one process has borrowed of a limit, and knows of it.
#[derive(Debug)]
pub(crate) struct Lender {
    pub(super) limiter: RedisLimiter,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) table: Table,
    pub(super) background: Background,
    pub(super) sweeping: AtomicBool,
    lost: AtomicU64,
}

/// What is known here and now.
#[derive(Debug)]
pub(crate) enum Known {
    Granted(Tag, Option<Standing>),
    Refused(Denied),
    Nothing,
}

/// What came of asking for something borrowed.
#[derive(Debug)]
pub(crate) enum Taken {
    Granted(Tag, Option<Standing>),
    Refused(Denied),
    /// The store has to decide.
    AskStore,
}

/// What is here for one of several limits of a decision.
pub(crate) enum Here {
    Granted(Tag, Option<Standing>),
    Refused(Denied),
    /// The store has to decide, and may bring a batch with it.
    Ask(Option<Fetch>),
}

/// What one who wants something does next.
enum Step {
    Done(Taken),
    /// Fetch a batch.
    Fetch(Fetch),
    /// Wait for the batch that is on its way.
    Join(tokio::sync::watch::Receiver<Fetched>),
}

/// For so many batches one waits; after that one asks for oneself, so that nobody waits long for others.
const ROUNDS: u32 = 2;

impl Lender {
    pub(super) fn new(limiter: RedisLimiter, settings: Settings) -> Self {
        Self {
            clock: limiter.store().clock(),
            table: Table::new(settings.max_keys),
            background: Background::default(),
            sweeping: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            limiter,
            settings,
        }
    }

    /// What could not be returned.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> u64 {
        u64::try_from(self.table.len()).unwrap_or(u64::MAX)
    }

    /// Takes what is here, or knows that it is refused.
    pub(crate) fn attempt(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64) -> Known {
        let now = self.clock.precise_now();
        let found = self.table.known(key, |stock| {
            let known = self.known(stock, now, cost);
            (known, self.early(stock, key, now))
        });
        let Some((known, fetch)) = found else {
            return Known::Nothing;
        };
        self.start(fetch);
        known
    }

    /// What `attempt` would answer; `None` if that is not known here.
    pub(crate) fn estimate(&self, key: &[u8], demand: Demand) -> Option<Result<(), Denied>> {
        let (now, cost) = (self.clock.precise_now(), demand.cost);
        let look = |stock: &mut Stock| {
            if stock.held(now) >= cost.max(1) {
                return Some(Ok(()));
            }
            self.refusal(stock, now, cost).map(Err)
        };
        self.table.known(key, look).flatten()
    }

    pub(crate) fn standing(&self, key: &[u8]) -> Option<Standing> {
        let now = self.clock.precise_now();
        let look = |stock: &mut Stock| stock.standing(now);
        self.table.known(key, look).flatten()
    }

    /// Takes something borrowed, and borrows if need be.
    pub(crate) async fn take(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        cost: u64,
    ) -> Result<Taken, StoreError> {
        if !self.lends(cost) {
            return Ok(self.attempt(key, cost).into());
        }
        for _ in 0..ROUNDS {
            match self.step(key, cost) {
                Step::Done(taken) => return Ok(taken),
                Step::Fetch(mut fetch) => {
                    let fetched = fetch.leader_answer();
                    tokio::spawn(fetch.run());
                    return fetched.await;
                }
                Step::Join(fetch) => match fetched_by(fetch).await {
                    Fetched::Failed(kind) => return Err(StoreError::new(kind)),
                    Fetched::Here | Fetched::NotYet => {}
                },
            }
        }
        Ok(self.attempt(key, cost).into())
    }

    /// Takes what is here, for a decision that asks the store about several limits itself.
    pub(crate) fn take_here(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64) -> Here {
        let taken = if self.lends(cost) {
            match self.step(key, cost) {
                Step::Done(taken) => taken,
                Step::Fetch(fetch) => return Here::Ask(Some(fetch)),
                Step::Join(_) => return Here::Ask(None),
            }
        } else {
            self.attempt(key, cost).into()
        };
        match taken {
            Taken::Granted(tag, standing) => Here::Granted(tag, standing),
            Taken::Refused(denied) => Here::Refused(denied),
            Taken::AskStore => Here::Ask(None),
        }
    }

    /// Whether so much can be borrowed.
    fn lends(&self, cost: u64) -> bool {
        let most = self.settings.most;
        cost > 0 && cost <= most && most >= 2
    }

    fn step(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64) -> Step {
        let now = self.clock.precise_now();
        let mut stale = Vec::new();
        let mut early = None;
        let step = self.table.with(key, now, |stock| {
            stale = stock.clear(now, false);
            match self.known(stock, now, cost) {
                Known::Nothing => {}
                known => {
                    early = self.early(stock, key, now);
                    return Step::Done(known.into());
                }
            }
            // One whose task is gone brings nothing.
            if let Some(fetch) = stock.fetch.as_ref().filter(|it| it.has_changed().is_ok()) {
                let fetch = fetch.clone();
                stock.queued = stock.queued.saturating_add(cost);
                return Step::Join(fetch);
            }
            Step::Fetch(self.fetch(stock, key, now, cost))
        });
        self.give_back(key, stale);
        self.start(early);
        // There is no room for another key.
        step.unwrap_or(Step::Done(Taken::AskStore))
    }

    fn known(&self, stock: &mut Stock, now: Moment, cost: u64) -> Known {
        if let Some(tag) = stock.spend(now, cost) {
            return Known::Granted(tag, stock.standing(now));
        }
        match self.refusal(stock, now, cost) {
            Some(denied) => Known::Refused(denied),
            None => Known::Nothing,
        }
    }

    fn refusal(&self, stock: &Stock, now: Moment, cost: u64) -> Option<Denied> {
        stock.refusal(now, cost, self.limiter.limit(), self.limiter.name())
    }

    /// Remembers a refusal by the store, which was asked at `asked`.
    pub(crate) fn learn(self: &Arc<Self>, key: &Arc<[u8]>, asked: Moment, cost: u64, why: &Denied) {
        if self.settings.kind.refuses_quietly {
            let learn = |stock: &mut Stock| stock.remember(asked, cost, why);
            self.table.with(key, asked, learn);
            self.keep_sweeping();
        }
    }

    /// Something was returned in the store: who was refused may be granted.
    pub(crate) fn forget_refusal(&self, key: &[u8]) {
        self.table.known(key, Stock::forget_refusal);
    }

    /// Takes after the fact what is here, and says how much is left to charge in the store.
    pub(crate) fn charge(&self, key: &[u8], cost: u64) -> u64 {
        let now = self.clock.precise_now();
        let charge = |stock: &mut Stock| {
            stock.forget_refusal();
            let part = stock.held(now).min(cost);
            if part > 0 {
                stock.spend(now, part);
            }
            cost - part
        };
        self.table.known(key, charge).unwrap_or(cost)
    }

    /// Something borrowed was not used after all.
    pub(crate) fn put_back(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64, tag: Tag) {
        let now = self.clock.precise_now();
        let portion = Portion { left: cost, tag };
        let over = self.table.with(key, now, |stock| {
            stock.forget_refusal();
            stock.put(now, portion, self.settings.most)
        });
        let over = over.unwrap_or(Some(portion));
        let counts = |portion: &Portion| portion.tag.counts_until.is_none_or(|until| now < until);
        self.give_back(key, over.into_iter().filter(counts).collect());
        self.keep_sweeping();
    }

    /// Gives back in the store, in the background.
    pub(super) fn give_back(self: &Arc<Self>, key: &Arc<[u8]>, portions: Vec<Portion>) {
        for portion in portions {
            let (lender, key) = (Arc::clone(self), Arc::clone(key));
            let spawned = self.background.spawn(async move {
                let answer = lender
                    .limiter
                    .put_back(&key, portion.left, portion.tag.taken);
                lender.count_lost(answer.await.is_err());
            });
            self.count_lost(!spawned);
        }
    }

    pub(super) fn count_lost(&self, lost: bool) {
        self.lost.fetch_add(u64::from(lost), Ordering::Relaxed);
    }
}

impl From<Known> for Taken {
    fn from(known: Known) -> Self {
        match known {
            Known::Granted(tag, standing) => Self::Granted(tag, standing),
            Known::Refused(denied) => Self::Refused(denied),
            Known::Nothing => Self::AskStore,
        }
    }
}
