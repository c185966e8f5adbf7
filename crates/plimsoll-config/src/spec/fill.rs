//! Defaults that depend on other fields. What is said and what is left out then compare as the same.

use super::{Algorithm, Full, Kind, Limiter, Member, Order, Positive};

/// How many keys a limiter keeps unless told.
const KEYS: u32 = 1_000_000;
/// How many a penalty bucket keeps.
const PENALTY_KEYS: u32 = 10_000;

impl Limiter {
    /// Fills in what was left out.
    pub(crate) fn fill(&mut self) {
        let penalty = matches!(self.kind, Kind::PenaltyBucket { .. });
        let common = &mut self.common;
        if common.keyed || penalty {
            let most = if penalty { PENALTY_KEYS } else { KEYS };
            common.max_keys.get_or_insert(Positive(most));
        }
        if let Some(queue) = &mut common.queue {
            queue.full.get_or_insert(match queue.order {
                Order::Fifo => Full::Incoming,
                Order::Lifo => Full::Oldest,
            });
        }
        match &mut self.kind {
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
