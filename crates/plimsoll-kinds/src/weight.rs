use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::name::Name;

/// What is counted: the key under which a [`Provider`](super::Provider) has a limiter.
///
/// Four are well known, and there may be others:
///
/// ```
/// use plimsoll::kinds::Weight;
///
/// let tokens = Weight::new("tokens");
/// assert_eq!(Weight::new("network_bytes"), Weight::NETWORK_BYTES);
///
/// let mut weights = [tokens, Weight::MEMORY_SIZE, Weight::REQUEST_COUNT];
/// weights.sort();
/// assert_eq!(weights, [Weight::REQUEST_COUNT, Weight::MEMORY_SIZE, tokens]);
/// ```
///
/// # The order
///
/// Several weights are always asked for in the same order: [`REQUEST_COUNT`](Self::REQUEST_COUNT),
/// [`REQUEST_ITEMS`](Self::REQUEST_ITEMS), [`NETWORK_BYTES`](Self::NETWORK_BYTES), [`MEMORY_SIZE`](Self::MEMORY_SIZE),
/// then others by their name. What is cheapest to find out comes first: a count is known at once, a size must be
/// measured. And what is asked for in the same order everywhere cannot be half taken by two who each wait for the
/// other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Weight(Key);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    RequestCount,
    RequestItems,
    NetworkBytes,
    MemorySize,
    Other(Name),
}

impl Weight {
    /// Requests: 1 for each.
    pub const REQUEST_COUNT: Self = Self(Key::RequestCount);
    /// What a request consists of: lines, spans, rows.
    pub const REQUEST_ITEMS: Self = Self(Key::RequestItems);
    /// Bytes as they come over the network, before they are unpacked.
    pub const NETWORK_BYTES: Self = Self(Key::NetworkBytes);
    /// Bytes as they lie in memory.
    pub const MEMORY_SIZE: Self = Self(Key::MemorySize);

    /// The well-known ones, in their order.
    pub const KNOWN: [Self; 4] = [
        Self::REQUEST_COUNT,
        Self::REQUEST_ITEMS,
        Self::NETWORK_BYTES,
        Self::MEMORY_SIZE,
    ];

    /// The weight of this name: a well-known one, or one of your own.
    ///
    /// Names are kept for the life of the process, once each: make weights when a program starts, not for each
    /// request.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str() == name);
        known.unwrap_or_else(|| Self(Key::Other(Name::new(name))))
    }

    /// The name used in configuration and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            Key::RequestCount => "request_count",
            Key::RequestItems => "request_items",
            Key::NetworkBytes => "network_bytes",
            Key::MemorySize => "memory_size",
            Key::Other(name) => name.as_str(),
        }
    }

    const fn rank(self) -> u8 {
        match self.0 {
            Key::RequestCount => 0,
            Key::RequestItems => 1,
            Key::NetworkBytes => 2,
            Key::MemorySize => 3,
            Key::Other(_) => 4,
        }
    }
}

impl Ord for Weight {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_rank = self.rank().cmp(&other.rank());
        by_rank.then_with(|| self.as_str().cmp(other.as_str()))
    }
}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Weight {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight({})", self.as_str())
    }
}
