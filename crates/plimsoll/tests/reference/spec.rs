use super::Nanos;

/// A limit, by its parameters alone.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Greedy(Bucket),
    Interval(Bucket),
    Fixed {
        limit: u64,
        window: Nanos,
    },
    Sliding {
        limit: u64,
        window: Nanos,
        segments: u32,
    },
    Log {
        limit: u64,
        window: Nanos,
        gap: Nanos,
        counts_refusals: bool,
    },
    Counter {
        limit: u64,
        window: Nanos,
    },
    Refresh {
        limit: u64,
        window: Nanos,
    },
    Several(Vec<Self>),
    Penalty {
        bucket: Bucket,
        soft_limit: u32,
        soft_window: Nanos,
        lockout: Nanos,
    },
    /// A permit every [`INTERVAL`]; so many nanoseconds of idling are stored.
    Bursty {
        max: Nanos,
    },
    Slots {
        limit: u64,
    },
}

/// A power of two, so that nothing the real one computes is rounded.
pub(crate) const INTERVAL: Nanos = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) burst: u64,
    pub(crate) refill: u64,
    pub(crate) every: Nanos,
    pub(crate) initial: u64,
}

impl Bucket {
    /// A token has so many parts of which a greedy bucket can tell one from the next.
    pub(super) fn parts(self) -> i128 {
        let (mut a, mut b) = (self.every, self.refill);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        i128::from(self.every / a)
    }
}

impl Spec {
    pub(crate) fn limit(&self) -> u64 {
        match self {
            Self::Greedy(bucket) | Self::Interval(bucket) | Self::Penalty { bucket, .. } => {
                bucket.burst
            }
            Self::Fixed { limit, .. }
            | Self::Sliding { limit, .. }
            | Self::Log { limit, .. }
            | Self::Counter { limit, .. }
            | Self::Refresh { limit, .. }
            | Self::Slots { limit } => *limit,
            Self::Several(specs) => specs.iter().map(Self::limit).min().unwrap_or(0),
            Self::Bursty { .. } => u64::MAX,
        }
    }

    /// A time in which things happen.
    pub(crate) fn period(&self) -> Nanos {
        match self {
            Self::Greedy(bucket) | Self::Interval(bucket) | Self::Penalty { bucket, .. } => {
                bucket.every
            }
            Self::Fixed { window, .. }
            | Self::Sliding { window, .. }
            | Self::Log { window, .. }
            | Self::Counter { window, .. }
            | Self::Refresh { window, .. } => *window,
            Self::Several(specs) => specs[0].period(),
            Self::Bursty { .. } => INTERVAL,
            Self::Slots { .. } => 1000,
        }
    }

    pub(crate) fn gives_back(&self) -> bool {
        matches!(self, Self::Slots { .. })
    }

    /// Whether what is used is compared with one limit.
    pub(super) fn has_one_limit(&self) -> bool {
        !matches!(self, Self::Several(_) | Self::Bursty { .. })
    }

    /// Whether it can be taken from ahead of time.
    pub(crate) fn books(&self) -> bool {
        match self {
            Self::Greedy(_) | Self::Interval(_) | Self::Refresh { .. } => true,
            Self::Several(_) | Self::Penalty { .. } | Self::Bursty { .. } => true,
            Self::Fixed { .. } | Self::Sliding { .. } | Self::Log { .. } => false,
            Self::Counter { .. } | Self::Slots { .. } => false,
        }
    }
}
