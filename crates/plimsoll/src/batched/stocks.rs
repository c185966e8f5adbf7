//! The stock of each thread of a batched limiter.
//!
//! Only avoiding the shared word is cheaper than one exchange on it. A thread takes a batch of permits at once and
//! spends them alone, with a few loads and stores on memory of its own. Each thread has a small table of stocks,
//! indexed by the number of the limiter. Two limiters with the same index replace each other's stock, which costs time
//! and nothing else.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::grant::Era;
use crate::{Demand, Grant, Moment, Outcome, Shareable, Source};

/// The state that all clones of a limiter and the stocks of all threads share.
pub(super) struct Shared {
    /// The number of demands granted from stocks, as far as threads have reported them.
    pub(super) granted: AtomicU64,
    /// The number of grants that were undone.
    pub(super) undone: AtomicU64,
    pub(super) gate: Arc<dyn Source>,
    pub(super) me: Weak<Self>,
}

/// A permit from a stock is returned to the gate, which counted the batch as one grant.
impl Source for Shared {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, grant: Grant, whole: bool) {
        self.undo_of(grant, whole, Era::default());
    }

    fn undo_of(&self, grant: Grant, whole: bool, era: Era) {
        self.undone.fetch_add(u64::from(whole), Ordering::Relaxed);
        self.gate.undo_of(grant, false, era);
    }
}

impl Shareable for Shared {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

pub(super) const SLOTS: usize = 16;

thread_local! {
    /// Without destructors, so that reaching it is a single addition.
    pub(super) static STOCKS: [Slot; SLOTS] = const { [const { Slot::empty() }; SLOTS] };
    /// The owner of the stocks, which returns them when the thread ends.
    pub(super) static OWNERS: Owners = const { Owners([const { RefCell::new(None) }; SLOTS]) };
}

/// The stock of a thread for one limiter.
#[derive(Clone, Copy, Default)]
pub(super) struct Stock {
    pub(super) id: u64,
    pub(super) batch: u64,
    pub(super) left: u64,
    pub(super) surplus: u64,
    pub(super) taken: Moment,
    pub(super) era: Era,
    pub(super) until: Moment,
}

/// In a line of its own, so that finding it is a shift.
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) id: Cell<u64>,
    left: Cell<u64>,
    /// The sum of the granted costs less the number of granted demands.
    surplus: Cell<u64>,
    batch: Cell<u64>,
    /// The moment at which the gate granted it.
    taken: Cell<Moment>,
    era: Cell<Era>,
    until: Cell<Moment>,
}

impl Slot {
    const fn empty() -> Self {
        Self {
            id: Cell::new(0),
            batch: Cell::new(0),
            left: Cell::new(0),
            surplus: Cell::new(0),
            taken: Cell::new(Moment::ORIGIN),
            era: Cell::new(Era::LOST),
            until: Cell::new(Moment::ORIGIN),
        }
    }

    /// What is left after a demand, if the stock belongs to this limiter and has enough, too old or not.
    #[inline]
    pub(super) fn left_after(&self, id: u64, cost: u64) -> Option<u64> {
        let left = self.left.get();
        (self.id.get() == id && cost > 0 && cost <= left).then(|| left - cost)
    }

    /// Takes from the stock, of which so much is [left](Self::left_after), unless it is too old; returns the moment of the
    /// gate's grant.
    #[inline]
    pub(super) fn spend(&self, now: Moment, cost: u64, left: u64) -> Option<(Moment, Era)> {
        let fresh = now < self.until.get();
        if fresh {
            self.left.set(left);
            if cost > 1 {
                self.surplus.set(self.surplus.get() + cost - 1);
            }
        }
        fresh.then(|| (self.taken.get(), self.era.get()))
    }

    /// The number of demands granted from an empty stock. It is reported once.
    pub(super) fn used_up(&self, id: u64) -> Option<u64> {
        if self.id.get() != id || self.left.get() > 0 {
            return None;
        }
        Some(self.batch.take() - self.surplus.take())
    }

    pub(super) fn set(&self, stock: Stock) {
        self.id.set(stock.id);
        self.batch.set(stock.batch);
        self.left.set(stock.left);
        self.surplus.set(stock.surplus);
        self.taken.set(stock.taken);
        self.era.set(stock.era);
        self.until.set(stock.until);
    }
}

pub(super) struct Owners([RefCell<Option<Weak<Shared>>>; SLOTS]);

impl Owners {
    pub(super) fn set(&self, slot: usize, owner: Weak<Shared>) {
        self.0[slot].replace(Some(owner));
    }

    /// Empties a slot: reports the grants from it, and returns the rest.
    pub(super) fn settle(&self, slot: usize) {
        let owner = self.0[slot].take();
        STOCKS.with(|stocks| {
            let stock = &stocks[slot];
            if let Some(owner) = owner.and_then(|owner| owner.upgrade()) {
                let served = stock.batch.get() - stock.left.get() - stock.surplus.get();
                owner.granted.fetch_add(served, Ordering::Relaxed);
                if stock.left.get() > 0 {
                    let rest = Demand::of(stock.left.get()).granted(stock.taken.get());
                    owner.gate.undo_of(rest, false, stock.era.get());
                }
            }
            stock.set(Stock::default());
        });
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        for slot in 0..SLOTS {
            self.settle(slot);
        }
    }
}
