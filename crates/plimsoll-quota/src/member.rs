//! What is known of a member.

use plimsoll::Moment;

use crate::demand::{Demand, Usage};
use crate::ledger::Holding;

/// One that spends a share: a stream of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) holding: Holding,
    pub(crate) demand: Demand,
    pub(crate) weight: u32,
    /// Whether the last report had refusals, and whether it had anything.
    pub(crate) denied: bool,
    pub(crate) active: bool,
    /// Whether it has said goodbye: what it holds is lent until it has run out.
    pub(crate) left: bool,
    /// Whether a share of a server before this one may be in force there.
    pub(crate) known_before: bool,
    /// When it got its bucket, or lost it; and what it has spent since.
    pub(crate) turn: Moment,
    pub(crate) spent: u64,
    /// All that it has reported.
    pub(crate) total: Usage,
}

impl State {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            holding: Holding::default(),
            demand: Demand::default(),
            weight: 1,
            denied: false,
            active: true,
            left: false,
            known_before: false,
            turn: now,
            spent: 0,
            total: Usage::default(),
        }
    }

    /// What it should have: what it would spend and an eighth, or `fair` while that is not known.
    pub(crate) fn want(&self, fair: u64) -> u64 {
        let rate = self.demand.rate();
        rate.map_or(fair, |rate| rate.saturating_add(rate / 8))
    }

    pub(crate) fn report(&mut self, usage: Usage, fair: u64, now: Moment) {
        let fair = fair.max(self.holding.share().rate());
        self.demand.report(usage, fair, now);
        self.denied = usage.denied > 0;
        self.active = usage.denied > 0 || usage.allowed > 0;
        self.spent = self.spent.saturating_add(usage.allowed);
        self.total.allowed = self.total.allowed.saturating_add(usage.allowed);
        self.total.denied = self.total.denied.saturating_add(usage.denied);
    }
}
