//! Limiters of every kind, real and naive, by the same description.

mod subjects;

use std::time::Duration;

use plimsoll::{
    Bandwidths, Concurrency, Counts, FixedWindow, Full, ManualClock, Queue, Quota, Refresh,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use proptest::prelude::*;

use crate::reference::{self, Nanos};
pub(crate) use subjects::{Shape, Subject};

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Greedy {
        burst: u32,
        refill: u32,
        every: Nanos,
        initial: u32,
    },
    Interval {
        burst: u32,
        refill: u32,
        every: Nanos,
        initial: u32,
    },
    Fixed {
        limit: u32,
        window: Nanos,
    },
    Sliding {
        limit: u32,
        window: Nanos,
        segments: u32,
    },
    Log {
        limit: u32,
        window: Nanos,
        gap: Nanos,
    },
    Counter {
        limit: u32,
        window: Nanos,
    },
    /// Without reservations it is a fixed window.
    Refresh {
        limit: u32,
        window: Nanos,
    },
    Several(Vec<Self>),
    Slots {
        limit: u32,
    },
}

/// Small limits mostly, where everything happens; sometimes the largest there are.
fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 1u32..9, 1 => Just(u32::MAX)]
}

fn period() -> impl Strategy<Value = Nanos> {
    const CENTURY: Nanos = 36_500 * 86_400 * 1_000_000_000;
    prop_oneof![
        Just(1),
        2u64..20,
        Just(1000),
        Just(1_000_000_007),
        Just(CENTURY)
    ]
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    let bucket = || {
        (limit(), limit(), period()).prop_flat_map(|(burst, refill, every)| {
            (
                Just(burst),
                Just(refill),
                Just(every),
                prop_oneof![3 => Just(burst), 1 => 0..=burst],
            )
        })
    };
    prop_oneof![
        bucket().prop_map(|(burst, refill, every, initial)| Kind::Greedy {
            burst,
            refill,
            every,
            initial
        }),
        bucket().prop_map(|(burst, refill, every, initial)| Kind::Interval {
            burst,
            refill,
            every,
            initial
        }),
        (limit(), period()).prop_map(|(limit, window)| Kind::Fixed { limit, window }),
        (limit(), period(), 1u32..6).prop_map(|(limit, window, segments)| Kind::Sliding {
            limit,
            window: window.max(u64::from(segments)),
            segments,
        }),
        (limit(), period(), 0u64..5).prop_map(|(limit, window, gap)| Kind::Log {
            limit,
            window,
            gap: gap.min(window),
        }),
        (limit(), period()).prop_map(|(limit, window)| Kind::Counter { limit, window }),
        (limit(), period()).prop_map(|(limit, window)| Kind::Refresh { limit, window }),
        (bucket(), bucket()).prop_map(|(a, b)| {
            let (burst, refill, every, initial) = a;
            let first = Kind::Greedy {
                burst,
                refill,
                every,
                initial,
            };
            let (burst, refill, every, initial) = b;
            Kind::Several(vec![
                first,
                Kind::Interval {
                    burst,
                    refill,
                    every,
                    initial,
                },
            ])
        }),
        limit().prop_map(|limit| Kind::Slots { limit }),
    ]
}

impl Kind {
    pub(crate) fn period(&self) -> Nanos {
        match *self {
            Self::Greedy { every, .. } | Self::Interval { every, .. } => every,
            Self::Fixed { window, .. }
            | Self::Sliding { window, .. }
            | Self::Log { window, .. }
            | Self::Counter { window, .. }
            | Self::Refresh { window, .. } => window,
            Self::Several(ref kinds) => kinds[0].period(),
            Self::Slots { .. } => 1000,
        }
    }

    pub(crate) fn reference(&self, start: Nanos) -> reference::Rule {
        match *self {
            Self::Greedy {
                burst,
                refill,
                every,
                initial,
            } => {
                let level = i128::from(initial) * i128::from(every);
                reference::Rule::Greedy {
                    burst,
                    refill,
                    every,
                    level,
                    at: start,
                }
            }
            Self::Interval {
                burst,
                refill,
                every,
                initial,
            } => {
                let tokens = i128::from(initial);
                reference::Rule::Interval {
                    burst,
                    refill,
                    every,
                    tokens,
                    at: start,
                    start,
                }
            }
            Self::Fixed { limit, window } => reference::Rule::Fixed {
                limit,
                window,
                start,
                grants: Vec::new(),
            },
            Self::Sliding {
                limit,
                window,
                segments,
            } => reference::Rule::Sliding {
                limit,
                window,
                segments,
                start,
                grants: Vec::new(),
            },
            Self::Log { limit, window, gap } => reference::Rule::Log {
                limit,
                window,
                gap,
                grants: Vec::new(),
            },
            Self::Counter { limit, window } => reference::Rule::Counter {
                limit,
                window,
                start,
                grants: Vec::new(),
            },
            Self::Refresh { limit, window } => Self::Fixed { limit, window }.reference(start),
            Self::Several(ref kinds) => {
                reference::Rule::Several(kinds.iter().map(|kind| kind.reference(start)).collect())
            }
            Self::Slots { limit } => reference::Rule::Slots { limit, used: 0 },
        }
    }
}

pub(crate) fn build(
    kind: &Kind,
    queue: Option<reference::Queue>,
    time: &ManualClock,
    shape: Shape,
) -> &'static dyn Subject {
    let queue = queue.map(|queue| {
        let real = if queue.lifo {
            Queue::lifo(queue.bound)
        } else {
            Queue::fifo(queue.bound)
        };
        let real = real
            .full(match queue.full {
                reference::Full::Incoming => Full::Incoming,
                reference::Full::Oldest => Full::Oldest,
                reference::Full::Newest => Full::Newest,
            })
            .counts(if queue.excess {
                Counts::Excess
            } else {
                Counts::Waiting
            });
        queue
            .timeout
            .map_or(real, |timeout| real.timeout(Duration::from_nanos(timeout)))
    });
    let quota = |units, nanos| Quota::new(units, Duration::from_nanos(nanos));
    let bucket = |kind: &Kind| match *kind {
        Kind::Greedy {
            burst,
            refill,
            every,
            initial,
        } => TokenBucket::greedy(quota(refill, every))
            .with_burst(burst)
            .with_initial(initial),
        Kind::Interval {
            burst,
            refill,
            every,
            initial,
        } => TokenBucket::interval(quota(refill, every))
            .with_burst(burst)
            .with_initial(initial),
        _ => unreachable!("not a bucket"),
    };
    match *kind {
        Kind::Greedy { .. } | Kind::Interval { .. } => shape.build(bucket(kind), queue, time),
        Kind::Several(ref kinds) => {
            let rule = Bandwidths::new(kinds.iter().map(bucket));
            shape.build(rule, queue, time)
        }
        Kind::Log { limit, window, gap } => {
            let rule =
                SlidingLog::new(quota(limit, window)).with_min_gap(Duration::from_nanos(gap));
            shape.build(rule, queue, time)
        }
        Kind::Counter { limit, window } => {
            shape.build(SlidingCounter::new(quota(limit, window)), queue, time)
        }
        Kind::Refresh { limit, window } => {
            shape.build(Refresh::new(quota(limit, window)), queue, time)
        }
        Kind::Fixed { limit, window } => {
            shape.build(FixedWindow::new(quota(limit, window)), queue, time)
        }
        Kind::Sliding {
            limit,
            window,
            segments,
        } => shape.build(
            SlidingWindow::new(quota(limit, window), segments),
            queue,
            time,
        ),
        Kind::Slots { limit } => shape.build(Concurrency::new(limit), queue, time),
    }
}
