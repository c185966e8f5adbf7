use std::fmt;

/// The reason for which a limiter refused a demand.
///
/// [`Denied::retry_after`](crate::Denied::retry_after) says when to retry; the reason says whether a retry makes sense.
/// After [`TooLarge`](Self::TooLarge), [`NoKey`](Self::NoKey) and [`Closed`](Self::Closed) the same demand is refused
/// again. New reasons may be added, so a `match` needs a wildcard arm.
///
/// ```
/// use plimsoll::{Concurrency, Gate, Reason};
///
/// let denied = Gate::new(Concurrency::new(2)).try_acquire(3).unwrap_err();
/// assert_eq!(denied.reason(), Reason::TooLarge);
/// assert_eq!(denied.reason().as_str(), "too_large");
/// ```
// As wide as its place in a refusal: padding there would be copied byte by byte with it.
#[repr(u64)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reason {
    /// The limit is used up for now.
    Exhausted,
    /// The cost is above the limit: the demand can never be granted.
    TooLarge,
    /// The queue has no room.
    QueueFull,
    /// The demand waited, and was evicted from a full queue.
    Evicted,
    /// The demand waited longer than its time-out, or would have to.
    TimedOut,
    /// The demand came too soon after the previous one.
    TooSoon,
    /// The caller is over the limit, but not often enough to be locked out.
    SoftThrottle,
    /// The caller was over the limit too often, and is locked out for some time.
    LockedOut,
    /// A keyed limit has no room for the state of another key.
    KeysFull,
    /// The system has no room for more work of any caller.
    Saturated,
    /// The demand was dropped in favour of more important work.
    Shed,
    /// The limiter was closed.
    Closed,
    /// The request has no key, so its limit is not known.
    NoKey,
    /// The store of the limiter cannot be reached or does not answer.
    Unavailable,
}

impl Reason {
    /// Returns the name of the reason in scenario files, configuration and metrics.
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

    /// Whether the demand may be granted later.
    pub(crate) const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Exhausted | Self::TooSoon | Self::SoftThrottle | Self::LockedOut
        )
    }

    /// Returns a message for users.
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
