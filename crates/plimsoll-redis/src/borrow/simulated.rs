//! What one process has borrowed, without a store, a clock or a runtime.

use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};

use super::stock::Stock;
use super::{Borrow, Lent, Settings};
use crate::charge::Borrowed;

/// What one process has borrowed of a token bucket for one key, and what it decides by it: what a
/// [`Fleet`](crate::Fleet) that [borrows](Borrow) does, for simulations.
///
/// Whoever drives it passes what it wants to a store of its own, and the answers back. Each demand is for one permit.
///
/// ```
/// use plimsoll::{Moment, Standing};
/// use plimsoll_redis::Borrow;
/// use plimsoll_redis::simulation::{Borrower, Step};
///
/// let now = Moment::ORIGIN;
/// let mut process = Borrower::new(Borrow::new(), 100, now);
/// let Step::Fetch(batch) = process.step(now) else { panic!("nothing is here yet") };
/// // The store had three for it; the first is used by the one who asked.
/// process.received(now, now, batch.least + 2, Standing::new(100, 97), 1);
/// assert_eq!(process.step(now), Step::Granted);
/// ```
#[derive(Debug)]
pub struct Borrower {
    stock: Stock,
    settings: Settings,
    fetching: bool,
}

/// What becomes of a demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// It is granted.
    Granted,
    /// It is refused, as the store has said before.
    Refused,
    /// A batch is on its way, which it waits for.
    Wait,
    /// It fetches a batch, and has the first of it.
    Fetch(Batch),
}

/// What is asked of the store: it takes half of what is left, but no more than the most, or else the least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// Without this it is a refusal.
    pub least: u64,
    /// More is of no use.
    pub most: u64,
}

impl Borrower {
    /// A process that has borrowed nothing yet, of a limit of so many tokens.
    #[must_use]
    pub fn new(borrow: Borrow, limit: u64, now: Moment) -> Self {
        let kind = Lent {
            windowed: false,
            refuses_quietly: true,
            exact: false,
        };
        Self {
            stock: Stock::new(now),
            settings: borrow.settings(limit, kind),
            fetching: false,
        }
    }

    /// The most that it may hold.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.settings.most
    }

    /// After which time what is not used goes back.
    #[must_use]
    pub fn keep(&self) -> Duration {
        self.settings.keep
    }

    /// Decides, or says what it takes to decide.
    pub fn step(&mut self, now: Moment) -> Step {
        if let Some(decided) = self.attempt(now) {
            return if decided {
                Step::Granted
            } else {
                Step::Refused
            };
        }
        if self.fetching {
            self.stock.queued = self.stock.queued.saturating_add(1);
            return Step::Wait;
        }
        Step::Fetch(self.fetch(now))
    }

    /// Decides if that can be done here: granted, or refused.
    pub fn attempt(&mut self, now: Moment) -> Option<bool> {
        if self.stock.spend(now, 1).is_some() {
            return Some(true);
        }
        let refused = self.stock.refusal(now, 1, self.settings.most, "");
        refused.map(|_| false)
    }

    /// The next batch, if it is time to fetch it before this one is used up.
    pub fn early(&mut self, now: Moment) -> Option<Batch> {
        let wanted = !self.fetching && self.stock.is_low(now, self.settings.most);
        wanted.then(|| self.fetch(now))
    }

    fn fetch(&mut self, now: Moment) -> Batch {
        self.fetching = true;
        let most = self.stock.batch(now, 1, &self.settings);
        Batch { least: 1, most }
    }

    /// A batch is here that was asked for at `asked`, of which `used` is used at once. Says what is to go back.
    pub fn received(
        &mut self,
        asked: Moment,
        now: Moment,
        amount: u64,
        standing: Standing,
        used: u64,
    ) -> u64 {
        self.ended();
        let batch = Borrowed {
            amount,
            taken: asked,
            standing,
        };
        let (_, over) = self
            .stock
            .stock_up(asked, now, &batch, used, &self.settings);
        over.map_or(0, |portion| portion.left)
    }

    /// The store has refused what was asked for at `asked`, until a time has passed.
    pub fn refused(&mut self, asked: Moment, retry_after: Duration) {
        self.ended();
        let ready = asked.plus(retry_after);
        let denied = Denied::new(Reason::Exhausted).with_ready_at(asked, Some(ready));
        self.stock.remember(asked, 1, &denied);
    }

    /// No answer came.
    pub fn failed(&mut self) {
        self.ended();
    }

    fn ended(&mut self) {
        self.fetching = false;
        self.stock.ended();
    }

    /// Takes out what was not used in its time, and says how much is to go back.
    pub fn sweep(&mut self, now: Moment) -> u64 {
        let old = self.stock.clear(now, false);
        if !old.is_empty() {
            self.stock.forget_refusal();
        }
        old.iter().map(|portion| portion.left).sum()
    }
}
