//! A borrowing process without a store, a clock or a runtime.

use std::time::Duration;

use plimsoll::{Denied, Moment, Reason, Standing};

use super::stock::Stock;
use super::{Borrow, Lent, Settings};
use crate::charge::Borrowed;

/// A process that borrows from a token bucket for one key, with the logic of a [`Fleet`](crate::Fleet) that [borrows](Borrow), for
/// simulations.
///
/// The simulation passes its batches to a simulated store, and the replies back. Each demand is for one permit.
///
/// ```
/// use plimsoll::{Moment, Standing};
/// use plimsoll_redis::Borrow;
/// use plimsoll_redis::simulation::{Borrower, Step};
///
/// let now = Moment::ORIGIN;
/// let mut process = Borrower::new(Borrow::new(), 100, now);
/// let Step::Fetch(batch) = process.step(now) else { panic!("nothing is here yet") };
/// // The store grants three; the demand that fetched them uses the first.
/// process.received(now, now, batch.least + 2, Standing::new(100, 97), 1);
/// assert_eq!(process.step(now), Step::Granted);
/// ```
#[derive(Debug)]
pub struct Borrower {
    stock: Stock,
    settings: Settings,
    fetching: bool,
}

/// The next step of a demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// The demand is granted.
    Granted,
    /// The demand is refused, by a remembered refusal of the store.
    Refused,
    /// The demand waits for the batch that is being fetched.
    Wait,
    /// The demand fetches a batch and uses the first permit of it.
    Fetch(Batch),
}

/// The request for a batch. The store grants half of what remains, at least `least` and at most `most`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// The minimum: the store refuses if less is available.
    pub least: u64,
    /// The maximum.
    pub most: u64,
}

impl Borrower {
    /// Creates a process without borrowed permits, for a limit of `limit` tokens.
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

    /// Returns the maximum that it may hold.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.settings.most
    }

    /// Returns the time after which unused permits are returned.
    #[must_use]
    pub fn keep(&self) -> Duration {
        self.settings.keep
    }

    /// Decides a demand, or returns what is needed to decide it.
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

    /// Decides a demand if that is possible without the store: `Some(true)` if it is granted.
    pub fn attempt(&mut self, now: Moment) -> Option<bool> {
        if self.stock.spend(now, 1).is_some() {
            return Some(true);
        }
        let refused = self.stock.refusal(now, 1, self.settings.most, "");
        refused.map(|_| false)
    }

    /// Returns the next batch, if it is time to fetch it before this one is used up.
    pub fn early(&mut self, now: Moment) -> Option<Batch> {
        let wanted = !self.fetching && self.stock.is_low(now, self.settings.most);
        wanted.then(|| self.fetch(now))
    }

    fn fetch(&mut self, now: Moment) -> Batch {
        self.fetching = true;
        let most = self.stock.batch(now, 1, &self.settings);
        Batch { least: 1, most }
    }

    /// Receives a batch that was requested at `asked`, of which `used` is used at once. Returns the amount to return to the store.
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

    /// Receives a refusal of the request that was sent at `asked`.
    pub fn refused(&mut self, asked: Moment, retry_after: Duration) {
        self.ended();
        let ready = asked.plus(retry_after);
        let denied = Denied::new(Reason::Exhausted).with_ready_at(asked, Some(ready));
        self.stock.remember(asked, 1, &denied);
    }

    /// Records that no reply arrived.
    pub fn failed(&mut self) {
        self.ended();
    }

    fn ended(&mut self) {
        self.fetching = false;
        self.stock.ended();
    }

    /// Removes permits that were not used in time. Returns the amount to return to the store.
    pub fn sweep(&mut self, now: Moment) -> u64 {
        let old = self.stock.clear(now, false);
        if !old.is_empty() {
            self.stock.forget_refusal();
        }
        old.iter().map(|portion| portion.left).sum()
    }
}
