//! Defaults that depend on other fields. What is said and what is left out then compare as the same.

use super::{
    Algorithm, Align, Always, Full, Kind, Limiter, Member, Order, Outage, Period, Positive,
};

/// How many keys a limiter keeps unless told.
const KEYS: u32 = 1_000_000;
/// How many a penalty bucket keeps.
const PENALTY_KEYS: u32 = 10_000;
/// How long a lease is good.
const LEASE: Period = Period(30_000_000_000);

/// The kinds that a store can keep.
pub(crate) const KEPT: [&str; 7] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "sliding_counter",
    "token_bucket",
    "bandwidths",
    "concurrency",
];

impl Limiter {
    /// Fills in what was left out.
    pub(crate) fn fill(&mut self) {
        let penalty = matches!(self.kind, Kind::PenaltyBucket { .. });
        let common = &mut self.common;
        let stored = common.store.is_some();
        if (common.keyed || penalty) && !stored {
            let most = if penalty { PENALTY_KEYS } else { KEYS };
            common.max_keys.get_or_insert(Positive(most));
        }
        if let Some(queue) = &mut common.queue {
            queue.full.get_or_insert(match queue.order {
                Order::Fifo => Full::Incoming,
                Order::Lifo => Full::Oldest,
            });
        }
        if stored {
            common.outage.get_or_insert(Outage::Word(Always::Deny));
            if let Some(borrow) = &mut common.borrow {
                let twentieth = self.kind.at_once() / 20;
                borrow.most.get_or_insert(Positive(twentieth.max(1)));
            }
        }
        match &mut self.kind {
            Kind::FixedWindow { align, .. } if stored => *align = Align::Epoch,
            Kind::Concurrency { lease, .. } if stored => {
                lease.get_or_insert(LEASE);
            }
            Kind::TokenBucket(bucket) => {
                bucket.initial.get_or_insert(bucket.burst.0);
            }
            Kind::PenaltyBucket { burst, initial, .. } => {
                initial.get_or_insert(burst.0);
            }
            Kind::Bandwidths { limits } => {
                for limit in limits {
                    limit.initial.get_or_insert(limit.burst.0);
                }
            }
            Kind::Adaptive(algorithm) => Algorithm::fill(algorithm, [None; 3]),
            Kind::All { of } => {
                for member in of {
                    if let Member::Inline(limiter) = member {
                        limiter.fill();
                    }
                }
            }
            _ => {}
        }
    }
}

impl Kind {
    /// The most that one of the kinds that a store can keep grants at once.
    fn at_once(&self) -> u32 {
        match self {
            Self::FixedWindow { limit, .. }
            | Self::SlidingWindow { limit, .. }
            | Self::SlidingLog { limit, .. }
            | Self::SlidingCounter { limit, .. }
            | Self::Concurrency { limit, .. } => limit.0,
            Self::TokenBucket(bucket) => bucket.burst.0,
            Self::Bandwidths { limits } => {
                let bursts = limits.iter().map(|limit| limit.burst.0);
                bursts.min().unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// The word for this kind.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::FixedWindow { .. } => "fixed_window",
            Self::SlidingWindow { .. } => "sliding_window",
            Self::SlidingLog { .. } => "sliding_log",
            Self::SlidingCounter { .. } => "sliding_counter",
            Self::TokenBucket(_) => "token_bucket",
            Self::Bandwidths { .. } => "bandwidths",
            Self::SmoothBursty { .. } => "smooth_bursty",
            Self::SmoothWarmup { .. } => "smooth_warmup",
            Self::Refresh { .. } => "refresh",
            Self::Concurrency { .. } => "concurrency",
            Self::Adaptive(_) => "adaptive",
            Self::PenaltyBucket { .. } => "penalty_bucket",
            Self::All { .. } => "all",
            Self::Memory { .. } => "memory",
            Self::Cpu { .. } => "cpu",
        }
    }
}
