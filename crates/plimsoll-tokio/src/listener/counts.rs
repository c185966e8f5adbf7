use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many connections a listener has accepted and refused so far. Clones share the counters.
#[derive(Clone, Default)]
pub struct ConnectionCounts(Arc<Cells>);

#[derive(Default)]
struct Cells {
    accepted: AtomicU64,
    in_total: AtomicU64,
    by_address: AtomicU64,
}

impl ConnectionCounts {
    /// How many connections were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// How many connections were closed at the total limit.
    #[must_use]
    pub fn refused_in_total(&self) -> u64 {
        self.0.in_total.load(Ordering::Relaxed)
    }

    /// How many connections were closed at the limit of their address.
    #[must_use]
    pub fn refused_by_address(&self) -> u64 {
        self.0.by_address.load(Ordering::Relaxed)
    }

    pub(super) fn accept(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse_in_total(&self) {
        self.0.in_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse_by_address(&self) {
        self.0.by_address.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for ConnectionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionCounts")
            .field("accepted", &self.accepted())
            .field("refused_in_total", &self.refused_in_total())
            .field("refused_by_address", &self.refused_by_address())
            .finish()
    }
}
