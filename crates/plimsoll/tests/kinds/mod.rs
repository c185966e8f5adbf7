//! Limiters of every kind, real and naive, by the same description.

mod subjects;

use std::time::Duration;

use plimsoll::{
    Bandwidths, Carry, Concurrency, Counts, FixedWindow, Full, Gate, Keyed, Limiter, ManualClock,
    PenaltyBucket, Queue, Quota, Refresh, Reservation, Rule, SlidingCounter, SlidingLog,
    SlidingWindow, Smooth, TokenBucket,
};
use proptest::prelude::*;

use crate::reference::{self, Bucket, INTERVAL, Nanos, Spec};

/// Small limits mostly, where everything happens; sometimes the largest there are.
/// Amounts that need more than 32 bits, up to the largest there is.
pub(crate) fn wide() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1 << 32),
        Just((1 << 53) + 1),
        (1_u64 << 32)..=u64::MAX,
        (0_u64..9).prop_map(|less| u64::MAX - less),
    ]
}

fn limit() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 1u64..9, 1 => wide()]
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

fn bucket() -> impl Strategy<Value = Bucket> {
    (limit(), limit(), period()).prop_flat_map(|(burst, refill, every)| {
        let initial = prop_oneof![3 => Just(burst), 1 => 0..=burst];
        initial.prop_map(move |initial| Bucket {
            burst,
            refill,
            every,
            initial,
        })
    })
}

pub(crate) fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        bucket().prop_map(Spec::Greedy),
        bucket().prop_map(Spec::Interval),
        (limit(), period()).prop_map(|(limit, window)| Spec::Fixed { limit, window }),
        (limit(), period(), 1u32..6).prop_map(|(limit, window, segments)| Spec::Sliding {
            limit,
            window: window.max(u64::from(segments)),
            segments,
        }),
        (limit(), period(), 0u64..5, any::<bool>()).prop_map(
            |(limit, window, gap, counts_refusals)| Spec::Log {
                limit,
                window,
                gap: gap.min(window),
                counts_refusals,
            }
        ),
        (limit(), period()).prop_map(|(limit, window)| Spec::Counter { limit, window }),
        (limit(), period()).prop_map(|(limit, window)| Spec::Refresh { limit, window }),
        (bucket(), bucket())
            .prop_map(|(a, b)| Spec::Several(vec![Spec::Greedy(a), Spec::Interval(b)])),
        (
            bucket(),
            1u32..4,
            period(),
            prop_oneof![Just(0), 1u64..5000]
        )
            .prop_map(|(bucket, soft_limit, soft_window, lockout)| Spec::Penalty {
                bucket,
                soft_limit,
                soft_window,
                lockout,
            }),
        (0u64..9000).prop_map(|max| Spec::Bursty { max }),
        limit().prop_map(|limit| Spec::Slots { limit }),
    ]
}

/// Another limit of the same kind, to change to. Buckets may change from greedy to interval and back.
pub(crate) fn altered(spec: &Spec, other: Bucket) -> Spec {
    let Bucket {
        burst: limit,
        every: window,
        ..
    } = other;
    match *spec {
        Spec::Greedy(_) | Spec::Interval(_) if other.refill.is_multiple_of(2) => {
            Spec::Greedy(other)
        }
        Spec::Greedy(_) | Spec::Interval(_) => Spec::Interval(other),
        Spec::Fixed { .. } => Spec::Fixed { limit, window },
        Spec::Sliding { segments, .. } => Spec::Sliding {
            limit,
            window: window.max(u64::from(segments)),
            segments,
        },
        Spec::Log {
            gap,
            counts_refusals,
            ..
        } => Spec::Log {
            limit,
            window,
            gap: gap.min(window),
            counts_refusals,
        },
        Spec::Counter { .. } => Spec::Counter { limit, window },
        Spec::Refresh { .. } => Spec::Refresh { limit, window },
        Spec::Several(_) => Spec::Several(vec![Spec::Greedy(other), Spec::Interval(other)]),
        Spec::Penalty {
            soft_limit,
            soft_window,
            lockout,
            ..
        } => Spec::Penalty {
            bucket: other,
            soft_limit,
            soft_window,
            lockout,
        },
        Spec::Bursty { .. } => Spec::Bursty {
            max: window % 10_000,
        },
        Spec::Slots { .. } => spec.clone(),
    }
}

/// To change to; see [`altered`].
pub(crate) fn alteration() -> impl Strategy<Value = Bucket> {
    bucket()
}

/// A real rule that is made of a description.
pub(crate) trait Described: Rule + Clone {
    fn of(spec: &Spec) -> Self;
    fn replace_keys(keyed: &Keyed<u8, Self>, spec: &Spec, carry: Carry);
    fn resize_keys(_keyed: &Keyed<u8, Self>, _limit: u64) -> bool {
        false
    }
}

fn quota(units: u64, nanos: Nanos) -> Quota {
    Quota::new(units, Duration::from_nanos(nanos))
}

macro_rules! described {
    ($($rule:ty, $($spec:pat => $made:expr),+;)*) => {$(
        impl Described for $rule {
            fn of(spec: &Spec) -> Self {
                match *spec {
                    $($spec => $made,)+
                    _ => unreachable!("of another kind"),
                }
            }
            fn replace_keys(keyed: &Keyed<u8, Self>, spec: &Spec, carry: Carry) {
                keyed.replace(Self::of(spec), carry);
            }
        }
    )*};
}

impl Described for Concurrency {
    fn of(spec: &Spec) -> Self {
        match *spec {
            Spec::Slots { limit } => Self::new(limit),
            _ => unreachable!("of another kind"),
        }
    }
    fn replace_keys(_keyed: &Keyed<u8, Self>, _spec: &Spec, _carry: Carry) {}
    fn resize_keys(keyed: &Keyed<u8, Self>, limit: u64) -> bool {
        keyed.resize(limit).is_ok()
    }
}

described! {
    TokenBucket,
        Spec::Greedy(bucket) => TokenBucket::greedy(quota(bucket.refill, bucket.every))
            .burst(bucket.burst)
            .initial(bucket.initial),
        Spec::Interval(bucket) => TokenBucket::interval(quota(bucket.refill, bucket.every))
            .burst(bucket.burst)
            .initial(bucket.initial);
    FixedWindow, Spec::Fixed { limit, window } => FixedWindow::new(quota(limit, window));
    SlidingWindow,
        Spec::Sliding { limit, window, segments } => SlidingWindow::new(quota(limit, window), segments);
    SlidingLog,
        Spec::Log { limit, window, gap, counts_refusals } => {
            let log = SlidingLog::new(quota(limit, window)).min_gap(Duration::from_nanos(gap));
            if counts_refusals { log.counting_refusals() } else { log }
        };
    SlidingCounter, Spec::Counter { limit, window } => SlidingCounter::new(quota(limit, window));
    Refresh,
        Spec::Refresh { limit, window } => Refresh::new(quota(limit, window)).max_wait(Duration::MAX);
    Bandwidths, Spec::Several(ref specs) => Bandwidths::new(specs.iter().map(TokenBucket::of));
    PenaltyBucket,
        Spec::Penalty { bucket, soft_limit, soft_window, lockout } => {
            PenaltyBucket::new(TokenBucket::of(&Spec::Greedy(bucket)))
                .lockout(soft_limit, Duration::from_nanos(lockout))
                .soft_window(Duration::from_nanos(soft_window))
        };
    Smooth,
        Spec::Bursty { max } => {
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let rate = 1e9 / INTERVAL as f64;
            Smooth::try_bursty(rate, Duration::from_nanos(max)).expect("a rate")
        };
}

/// What a subject is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Gate,
    OneKey,
}

/// A limiter of any rule, with the operations that not every one has.
pub(crate) trait Subject: Limiter {
    /// Whether it can do all of them.
    fn is_gate(&self) -> bool {
        true
    }
    /// Whether it has a state to carry over to another limit: a key that is forgotten begins as the new limit begins.
    fn is_known(&self) -> bool {
        true
    }
    fn resize_if_possible(&self, limit: u64) -> bool;
    fn set_bound(&self, bound: u64);
    fn add(&self, amount: u64);
    fn reset(&self);
    fn replace(&self, spec: &Spec, carry: Carry);
    fn book(&self, cost: u64) -> Reservation<'_>;
}

macro_rules! subject {
    ($($rule:ty)*) => {$(
        impl Subject for Gate<$rule> {
            fn resize_if_possible(&self, _limit: u64) -> bool {
                false
            }
            fn set_bound(&self, bound: u64) {
                self.set_queue_bound(bound);
            }
            fn add(&self, amount: u64) {
                Gate::add(self, amount);
            }
            fn reset(&self) {
                Gate::reset(self);
            }
            fn replace(&self, spec: &Spec, carry: Carry) {
                Gate::replace(self, <$rule>::of(spec), carry);
            }
            fn book(&self, cost: u64) -> Reservation<'_> {
                Gate::reserve(self, cost).expect("it waits as long as it takes")
            }
        }
    )*};
}

subject! {
    TokenBucket FixedWindow SlidingWindow SlidingLog SlidingCounter Refresh Bandwidths PenaltyBucket Smooth
}

impl Subject for Gate<Concurrency> {
    fn resize_if_possible(&self, limit: u64) -> bool {
        self.resize(limit).is_ok()
    }
    fn set_bound(&self, bound: u64) {
        self.set_queue_bound(bound);
    }
    fn add(&self, amount: u64) {
        Self::add(self, amount);
    }
    fn reset(&self) {
        Self::reset(self);
    }
    fn replace(&self, _spec: &Spec, _carry: Carry) {}
    fn book(&self, cost: u64) -> Reservation<'_> {
        Self::reserve(self, cost).expect("there is room")
    }
}

/// Something to be done with the real rule of a description, whichever it is.
pub(crate) trait WithRule {
    type Output;
    fn with<R: Described>(self, rule: R) -> Self::Output
    where
        Gate<R>: Subject;
}

pub(crate) fn with_rule<W: WithRule>(spec: &Spec, with: W) -> W::Output {
    match spec {
        Spec::Greedy(_) | Spec::Interval(_) => with.with(TokenBucket::of(spec)),
        Spec::Fixed { .. } => with.with(FixedWindow::of(spec)),
        Spec::Sliding { .. } => with.with(SlidingWindow::of(spec)),
        Spec::Log { .. } => with.with(SlidingLog::of(spec)),
        Spec::Counter { .. } => with.with(SlidingCounter::of(spec)),
        Spec::Refresh { .. } => with.with(Refresh::of(spec)),
        Spec::Several(_) => with.with(Bandwidths::of(spec)),
        Spec::Penalty { .. } => with.with(PenaltyBucket::of(spec)),
        Spec::Bursty { .. } => with.with(Smooth::of(spec)),
        Spec::Slots { .. } => with.with(Concurrency::of(spec)),
    }
}

pub(crate) fn real_carry(carry: reference::Carry) -> Carry {
    match carry {
        reference::Carry::AsIs => Carry::AsIs,
        reference::Carry::Used => Carry::Used,
        reference::Carry::Proportional => Carry::Proportional,
        reference::Carry::Reset => Carry::Reset,
    }
}

pub(crate) fn carry() -> impl Strategy<Value = reference::Carry> {
    prop_oneof![
        Just(reference::Carry::AsIs),
        Just(reference::Carry::Used),
        Just(reference::Carry::Proportional),
        Just(reference::Carry::Reset),
    ]
}

pub(crate) fn build(
    spec: &Spec,
    queue: Option<reference::Queue>,
    time: &ManualClock,
    shape: Shape,
) -> &'static dyn Subject {
    struct Leaked<'a>(Option<Queue>, &'a ManualClock, Shape);
    impl WithRule for Leaked<'_> {
        type Output = &'static dyn Subject;
        fn with<R: Described>(self, rule: R) -> Self::Output
        where
            Gate<R>: Subject,
        {
            if let Shape::OneKey = self.2 {
                return subjects::one_key(rule, self.0, self.1);
            }
            let builder = Gate::builder(rule).clock(self.1.clock());
            let gate = match self.0 {
                Some(queue) => builder.queue(queue).build(),
                None => builder.build(),
            };
            // Leaked: the futures under test borrow from it, and a test may.
            Box::leak(Box::new(gate))
        }
    }
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
    with_rule(spec, Leaked(queue, time, shape))
}
