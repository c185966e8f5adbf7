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

/// The permits that this process has borrowed from a limit, by key, with the refusals that it remembers.
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

/// A decision without the store, if one is possible.
#[derive(Debug)]
pub(crate) enum Known {
    Granted(Tag, Option<Standing>),
    Refused(Denied),
    Nothing,
}

/// The result of taking a borrowed permit.
#[derive(Debug)]
pub(crate) enum Taken {
    Granted(Tag, Option<Standing>),
    Refused(Denied),
    /// The store has to decide.
    AskStore,
}

/// The local result for one of several limits of a decision.
pub(crate) enum LocalResult {
    Granted(Tag, Option<Standing>),
    Refused(Denied),
    /// The store has to decide, and its reply may bring a batch.
    Ask(Option<Fetch>),
}

/// The next step of a caller.
enum Step {
    Done(Taken),
    /// Fetch a batch.
    Fetch(Fetch),
    /// Wait for the batch that is being fetched.
    Join(tokio::sync::watch::Receiver<Fetched>),
}

/// Maximum number of batches of other callers that a caller waits for before it asks the store itself.
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

    /// The number of returns that failed.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The number of keys.
    pub(crate) fn keys(&self) -> u64 {
        u64::try_from(self.table.len()).unwrap_or(u64::MAX)
    }

    /// Takes a borrowed permit, or refuses if a remembered refusal still holds.
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

    /// Returns what `attempt` would decide; `None` if only the store can decide.
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

    /// Takes a borrowed permit, and fetches a batch if there is none.
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

    /// Takes a borrowed permit for a decision about several limits, which sends its own script.
    pub(crate) fn take_here(self: &Arc<Self>, key: &Arc<[u8]>, cost: u64) -> LocalResult {
        let taken = if self.lends(cost) {
            match self.step(key, cost) {
                Step::Done(taken) => taken,
                Step::Fetch(fetch) => return LocalResult::Ask(Some(fetch)),
                Step::Join(_) => return LocalResult::Ask(None),
            }
        } else {
            self.attempt(key, cost).into()
        };
        match taken {
            Taken::Granted(tag, standing) => LocalResult::Granted(tag, standing),
            Taken::Refused(denied) => LocalResult::Refused(denied),
            Taken::AskStore => LocalResult::Ask(None),
        }
    }

    /// Whether `cost` can be borrowed.
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
            // A batch whose task was dropped never arrives.
            if let Some(fetch) = stock.fetch.as_ref().filter(|it| it.has_changed().is_ok()) {
                let fetch = fetch.clone();
                stock.queued = stock.queued.saturating_add(cost);
                return Step::Join(fetch);
            }
            Step::Fetch(self.fetch(stock, key, now, cost))
        });
        self.give_back(key, stale);
        self.start(early);
        // The table of keys is full.
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

    /// Remembers a refusal of a call to the store that was sent at `asked`.
    pub(crate) fn learn(self: &Arc<Self>, key: &Arc<[u8]>, asked: Moment, cost: u64, why: &Denied) {
        if self.settings.kind.refuses_quietly {
            let learn = |stock: &mut Stock| stock.remember(asked, cost, why);
            self.table.with(key, asked, learn);
            self.keep_sweeping();
        }
    }

    /// Forgets a refusal, because something was returned to the store.
    pub(crate) fn forget_refusal(&self, key: &[u8]) {
        self.table.known(key, Stock::forget_refusal);
    }

    /// Charges borrowed permits first. Returns how much is left to charge in the store.
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

    /// Returns an unused permit to the stock.
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

    /// Returns portions to the store, in the background.
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
