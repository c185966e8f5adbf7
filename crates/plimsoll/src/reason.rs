use std::fmt;

/// Why a limiter refused.
// As wide as its place in a refusal: bytes that are left free there are copied one by one with it.
#[repr(u64)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reason {
    /// Not now: the limit is used up.
    Exhausted,
    /// Never: the cost is above the limit.
    TooLarge,
    /// The queue has no room.
    QueueFull,
    /// It waited, and had to make room for another.
    Evicted,
    /// It waited too long, or would have to.
    TimedOut,
    /// Too soon after the one before.
    TooSoon,
    /// Over the limit of a policy, not yet often enough to be locked out.
    SoftThrottle,
    /// Over the limit of a policy too often.
    LockedOut,
    /// No room for the state of another key.
    KeysFull,
    /// The system has no room for more work, whoever asks.
    Saturated,
    /// Dropped to protect work that matters more.
    Shed,
    /// The limiter was closed.
    Closed,
    /// It is not known whose limit counts.
    NoKey,
    /// What the limiter stands on does not work.
    Unavailable,
}

impl Reason {
    /// The word used in scenario files, configuration and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::TooLarge => "too_large",
            Self::QueueFull => "queue_full",
            Self::Evicted => "evicted",
            Self::TimedOut => "timed_out",
            Self::TooSoon => "too_soon",
            Self::SoftThrottle => "soft_throttle",
            Self::LockedOut => "locked_out",
            Self::KeysFull => "keys_full",
            Self::Saturated => "saturated",
            Self::Shed => "shed",
            Self::Closed => "closed",
            Self::NoKey => "no_key",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether waiting may help.
    pub(crate) const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Exhausted | Self::TooSoon | Self::SoftThrottle | Self::LockedOut
        )
    }

    /// A phrase for people.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Exhausted => "the limit is used up",
            Self::TooLarge => "the cost is above the limit",
            Self::QueueFull => "the queue is full",
            Self::Evicted => "evicted from the queue",
            Self::TimedOut => "waiting takes too long",
            Self::TooSoon => "too soon after the one before",
            Self::SoftThrottle => "over the limit",
            Self::LockedOut => "locked out for exceeding the limit",
            Self::KeysFull => "too many keys",
            Self::Saturated => "saturated",
            Self::Shed => "shed to protect other work",
            Self::Closed => "the limiter is closed",
            Self::NoKey => "it is not known whose limit counts",
            Self::Unavailable => "the limiter does not work",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
