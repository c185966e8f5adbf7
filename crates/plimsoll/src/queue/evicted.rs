//! The waiters that a new demand would evict from a queue.

use super::Full;

/// The number of waiters of its own class that are evicted for a new demand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evicted {
    pub(super) who: Full,
    pub(super) count: usize,
}

impl Evicted {
    pub(crate) const NOBODY: Self = Self {
        who: Full::Incoming,
        count: 0,
    };

    pub(crate) fn anybody(self) -> bool {
        self.count > 0
    }
}
