use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll::{Clock, Demand, Denied, Moment, Standing};

use super::Settings;
use super::refill::{Flight, arrival};
use super::stock::{Landed, Lot, Stock, Tag};
use super::table::Table;
use crate::home::Home;
use crate::{RedisLimiter, StoreError};

/// What one process has borrowed of a limit, and knows of it.
#[derive(Debug)]
pub(crate) struct Lender {
    pub(super) limiter: RedisLimiter,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) table: Table,
    pub(super) home: Home,
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

/// What one who wants something does next.
enum Step {
    Done(Taken),
    /// Fetch a batch.
    Fly(Flight),
    /// Wait for the batch that is on its way.
    Join(tokio::sync::watch::Receiver<Landed>),
}

/// For so many batches one waits; after that one asks for oneself, so that nobody waits long for others.
const ROUNDS: u32 = 2;

impl Lender {
    pub(super) fn new(limiter: RedisLimiter, settings: Settings) -> Self {
        Self {
            clock: limiter.store().clock(),
            table: Table::new(settings.max_keys),
            home: Home::default(),
            sweeping: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            limiter,
            settings,
        }
    }

    /// What could not be given back.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// How many keys there are.
    pub(crate) fn keys(&self) -> u64 {
        u64::try_from(self.table.len()).unwrap_or(u64::MAX)
    }

    /// Takes what is here, or knows that it is refused.
    pub(crate) fn attempt(self: &Arc<Self>, key: &Arc<[u8]>, cost: u32) -> Known {
        let now = self.clock.precise_now();
        let found = self.table.known(key, |stock| {
            let known = self.known(stock, now, cost);
            (known, self.early(stock, key, now))
        });
        let Some((known, flight)) = found else {
            return Known::Nothing;
        };
        self.set_off(flight);
        known
    }

    /// What `attempt` would answer; `None` if that is not known here.
    pub(crate) fn estimate(&self, key: &[u8], demand: Demand) -> Option<Result<(), Denied>> {
        let (now, cost) = (self.clock.precise_now(), demand.cost());
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
        cost: u32,
    ) -> Result<Taken, StoreError> {
        let most = self.settings.most;
        if cost == 0 || cost > most || most < 2 {
            return Ok(self.attempt(key, cost).into());
        }
        for _ in 0..ROUNDS {
            match self.step(key, cost) {
                Step::Done(taken) => return Ok(taken),
                Step::Fly(mut flight) => {
                    let landed = flight.tell();
                    tokio::spawn(flight.fly());
                    return landed.await;
                }
                Step::Join(flight) => match arrival(flight).await {
                    Landed::Failed(kind) => return Err(StoreError::new(kind)),
                    Landed::Here | Landed::NotYet => {}
                },
            }
        }
        Ok(self.attempt(key, cost).into())
    }

    fn step(self: &Arc<Self>, key: &Arc<[u8]>, cost: u32) -> Step {
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
            if let Some(flight) = stock.flight.as_ref().filter(|it| it.has_changed().is_ok()) {
                let flight = flight.clone();
                stock.queued = stock.queued.saturating_add(cost);
                return Step::Join(flight);
            }
            Step::Fly(self.flight(stock, key, now, cost))
        });
        self.give_back(key, stale);
        self.set_off(early);
        // There is no room for another key.
        step.unwrap_or(Step::Done(Taken::AskStore))
    }

    fn known(&self, stock: &mut Stock, now: Moment, cost: u32) -> Known {
        if let Some(tag) = stock.spend(now, cost) {
            return Known::Granted(tag, stock.standing(now));
        }
        match self.refusal(stock, now, cost) {
            Some(denied) => Known::Refused(denied),
            None => Known::Nothing,
        }
    }

    fn refusal(&self, stock: &Stock, now: Moment, cost: u32) -> Option<Denied> {
        stock.refusal(now, cost, self.limiter.limit(), self.limiter.name())
    }

    /// Remembers a refusal by the store, which was asked at `asked`.
    pub(crate) fn learn(self: &Arc<Self>, key: &Arc<[u8]>, asked: Moment, cost: u32, why: &Denied) {
        if self.settings.kind.refuses_quietly {
            let learn = |stock: &mut Stock| stock.remember(asked, cost, why);
            self.table.with(key, asked, learn);
            self.keep_sweeping();
        }
    }

    /// Something was given back in the store: who was refused may be granted.
    pub(crate) fn forget_refusal(&self, key: &[u8]) {
        self.table.known(key, Stock::forget_refusal);
    }

    /// Takes after the fact what is here, and says how much is left to charge in the store.
    pub(crate) fn charge(&self, key: &[u8], cost: u32) -> u32 {
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
    pub(crate) fn put_back(self: &Arc<Self>, key: &Arc<[u8]>, cost: u32, tag: Tag) {
        let now = self.clock.precise_now();
        let lot = Lot { left: cost, tag };
        let over = self.table.with(key, now, |stock| {
            stock.forget_refusal();
            stock.put(now, lot, self.settings.most)
        });
        let over = over.unwrap_or(Some(lot));
        let counts = |lot: &Lot| lot.tag.counts_until.is_none_or(|until| now < until);
        self.give_back(key, over.into_iter().filter(counts).collect());
        self.keep_sweeping();
    }

    /// Gives back in the store, in the background.
    pub(super) fn give_back(self: &Arc<Self>, key: &Arc<[u8]>, lots: Vec<Lot>) {
        for lot in lots {
            let (lender, key) = (Arc::clone(self), Arc::clone(key));
            let spawned = self.home.spawn(async move {
                let answer = lender.limiter.put_back(&key, lot.left, lot.tag.taken);
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
