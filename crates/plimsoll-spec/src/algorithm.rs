//! Algorithms that find a limit, with their defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Period, Positive, Rate, Span, micros, millis, positive};

/// The algorithms, each with its own parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "algorithm", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Algorithm", tag = "algorithm")]
pub(crate) enum Algorithm {
    /// One more for each success, a cut for each failure.
    Aimd {
        /// The least limit: 20 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Positive>,
        /// The limit at first: 20 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Positive>,
        /// The most limit: 200 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Positive>,
        /// By what the limit is multiplied at a failure, at least 0.5 and below 1.
        #[serde(default = "nine_tenths")]
        backoff: Rate,
        /// What lasts longer is a failure.
        #[serde(default = "millis::<5000>")]
        timeout: Period,
    },
    /// By the queue that latency says there is.
    Vegas {
        /// The least limit: 1 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Positive>,
        /// The limit at first: 20 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Positive>,
        /// The most limit: 1000 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Positive>,
        /// The weight of what is new, at most 1.
        #[serde(default = "one")]
        smoothing: Rate,
        /// How rarely the latency of an idle server is measured anew.
        #[serde(default = "positive::<30>")]
        probe_multiplier: Positive,
        /// Factors used in turn in place of chance, for tests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probe_jitter: Option<Vec<Rate>>,
    },
    /// By how latency now compares with latency over long.
    Gradient2 {
        /// The least limit: 20 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Positive>,
        /// The limit at first: 20 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Positive>,
        /// The most limit: 200 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Positive>,
        /// The weight of what is new, at most 1.
        #[serde(default = "a_fifth")]
        smoothing: Rate,
        /// Over how many samples latency over long is averaged.
        #[serde(default = "positive::<600>")]
        long_window: Positive,
        /// So many samples are averaged plainly at first.
        #[serde(default = "count::<10>")]
        warmup: u32,
        /// How many times the latency over long is still good.
        #[serde(default = "one_and_a_half")]
        tolerance: Rate,
        /// How much may queue at the server.
        #[serde(default = "count::<4>")]
        queue_size: u32,
    },
    /// Gathers samples in windows for another algorithm.
    Windowed {
        /// The algorithm behind the windows.
        delegate: Box<Self>,
        /// The least limit of the algorithm behind, unless it says so itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Positive>,
        /// The limit at first of the algorithm behind, unless it says so itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Positive>,
        /// The most limit of the algorithm behind, unless it says so itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Positive>,
        /// The shortest window.
        #[serde(default = "micros::<1_000_000>")]
        min_window: Span,
        /// The longest window.
        #[serde(default = "micros::<1_000_000>")]
        max_window: Span,
        /// Windows with fewer samples are thrown away.
        #[serde(default = "positive::<10>")]
        window_size: Positive,
        /// Samples shorter than this are ignored.
        #[serde(default = "micros::<100>")]
        min_rtt: Span,
    },
    /// By how average latency compares with the least there was.
    LatencyGradient {
        /// The least limit: 5 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Positive>,
        /// The limit at first: 5 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Positive>,
        /// The most limit: 500 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Positive>,
        /// How many times the least latency is still good.
        #[serde(default = "one_and_a_half")]
        tolerance: Rate,
        /// The least bound of the queue.
        #[serde(default = "positive::<20>")]
        min_queue: Positive,
        /// The bound of the queue at first.
        #[serde(default = "positive::<20>")]
        initial_queue: Positive,
    },
    /// By what more work has brought: our own.
    Verdict {
        /// The least limit: 1 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Positive>,
        /// The limit at first: 20 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial: Option<Positive>,
        /// The most limit: 1000 unless set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Positive>,
    },
}

impl Algorithm {
    /// Fills in the bounds that are not said; `outer` are those of windows around it.
    pub(crate) fn fill(&mut self, outer: [Option<Positive>; 3]) {
        let (bounds, defaults) = match self {
            Self::Aimd {
                min, initial, max, ..
            }
            | Self::Gradient2 {
                min, initial, max, ..
            } => ([min, initial, max], [20, 20, 200]),
            Self::Vegas {
                min, initial, max, ..
            }
            | Self::Verdict { min, initial, max } => ([min, initial, max], [1, 20, 1000]),
            Self::LatencyGradient {
                min, initial, max, ..
            } => ([min, initial, max], [5, 5, 500]),
            Self::Windowed {
                delegate,
                min,
                initial,
                max,
                ..
            } => {
                let own = [min.take(), initial.take(), max.take()];
                let bound = |at: usize| own[at].or(outer[at]);
                return delegate.fill([bound(0), bound(1), bound(2)]);
            }
        };
        for ((bound, default), outer) in bounds.into_iter().zip(defaults).zip(outer) {
            *bound = bound.or(outer).or(Some(Positive(default)));
        }
    }

    /// The bounds of the limit that it, or what is behind its windows, finds: least, first, most.
    pub(crate) fn bounds(&mut self) -> [&mut Option<Positive>; 3] {
        match self {
            Self::Aimd {
                min, initial, max, ..
            }
            | Self::Gradient2 {
                min, initial, max, ..
            }
            | Self::Vegas {
                min, initial, max, ..
            }
            | Self::LatencyGradient {
                min, initial, max, ..
            }
            | Self::Verdict { min, initial, max } => [min, initial, max],
            Self::Windowed { delegate, .. } => delegate.bounds(),
        }
    }
}

const fn count<const N: u32>() -> u32 {
    N
}

const fn nine_tenths() -> Rate {
    Rate(0.9)
}

const fn one() -> Rate {
    Rate(1.0)
}

const fn a_fifth() -> Rate {
    Rate(0.2)
}

const fn one_and_a_half() -> Rate {
    Rate(1.5)
}
