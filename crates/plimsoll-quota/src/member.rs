//! The state of a member.

use plimsoll::Moment;

use crate::demand::{Demand, Usage};
use crate::ledger::Holding;

/// The id of a member of a [`Division`](crate::Division), such as a stream of a proxy.
///
/// [`join`](crate::Division::join) returns a new id for every member; ids are not used again. An id is valid in its own
/// division only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member(pub(crate) u64);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) holding: Holding,
    pub(crate) demand: Demand,
    pub(crate) weight: u32,
    /// Whether the last report had refusals, and whether it had any requests.
    pub(crate) denied: bool,
    pub(crate) active: bool,
    /// Whether it has left. Its share stays lent until it expires.
    pub(crate) left: bool,
    /// Whether a share from before a restart of the server may be in force there.
    pub(crate) known_before: bool,
    /// The moment at which it got or lost its bucket, and its usage since.
    pub(crate) turn: Moment,
    pub(crate) spent: u64,
    /// The sum of its reports.
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

    /// Its target: its demand and an eighth, or `fair` while the demand is unknown.
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
