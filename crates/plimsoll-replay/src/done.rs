//! The counters of a finished replay.

use plimsoll_engine::Limits;

use crate::logs::Requests;
use crate::tally::Tally;

/// The counters of a finished replay.
pub(crate) struct Done {
    pub(crate) tally: Tally,
    pub(crate) limits: Limits,
    /// For each limit, whether any route has other limits beside it, so that it also decided alone.
    pub(crate) beside: Vec<bool>,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) requests: u64,
    pub(crate) without_route: u64,
    pub(crate) refused_then: u64,
    /// The number of requests with an invalid target.
    pub(crate) bad_targets: u64,
    pub(crate) read: Requests,
}

impl Done {
    /// The number of requests that a limit decides alone, and of those that it refuses.
    pub(crate) fn alone(&self, limit: usize) -> (u64, u64) {
        let tally = &self.tally.limits[limit];
        match self.beside[limit] {
            true => tally.alone,
            false => (tally.asked, tally.refused + tally.would_refuse),
        }
    }
}
