use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// The unit of a cost: the key under which a [`Provider`](crate::Provider) has a limiter.
///
/// Four weights are well known, and programs can add their own:
///
/// ```
/// use plimsoll_kinds::Weight;
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
/// Several weights are always acquired in the same order: [`REQUEST_COUNT`](Self::REQUEST_COUNT),
/// [`REQUEST_ITEMS`](Self::REQUEST_ITEMS), [`NETWORK_BYTES`](Self::NETWORK_BYTES), [`MEMORY_SIZE`](Self::MEMORY_SIZE),
/// then others by name. The cheapest to determine comes first: a count is known at once, a size must be measured. One
/// order for all requests also excludes deadlocks between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Weight(Key);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    RequestCount,
    RequestItems,
    NetworkBytes,
    MemorySize,
    /// A thin pointer, so that a weight has two words.
    Other(&'static &'static str),
}

impl Weight {
    /// Requests: 1 for each.
    pub const REQUEST_COUNT: Self = Self(Key::RequestCount);
    /// The parts of a request: lines, spans, rows.
    pub const REQUEST_ITEMS: Self = Self(Key::RequestItems);
    /// Bytes on the network, before decompression.
    pub const NETWORK_BYTES: Self = Self(Key::NetworkBytes);
    /// Bytes in memory.
    pub const MEMORY_SIZE: Self = Self(Key::MemorySize);

    /// The well-known weights, in their order.
    pub const KNOWN: [Self; 4] = [
        Self::REQUEST_COUNT,
        Self::REQUEST_ITEMS,
        Self::NETWORK_BYTES,
        Self::MEMORY_SIZE,
    ];

    /// The weights that middleware measures by itself, early: requests, and bytes on the network.
    pub const MIDDLEWARE: [Self; 2] = [Self::REQUEST_COUNT, Self::NETWORK_BYTES];

    /// The weights that are measured behind the middleware, where the decoded request is known: its items and its memory.
    pub const NOT_MIDDLEWARE: [Self; 2] = [Self::REQUEST_ITEMS, Self::MEMORY_SIZE];

    /// Creates the weight with this name: a well-known one, or a custom one.
    ///
    /// Two weights of the same name are equal, so a name can be used in files and in code.
    ///
    /// Each distinct name is stored for the life of the process. Create weights when the program starts, not for each
    /// request.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str() == name);
        known.unwrap_or_else(|| Self(Key::Other(interned(name))))
    }

    /// Returns the name used in configuration and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            Key::RequestCount => "request_count",
            Key::RequestItems => "request_items",
            Key::NetworkBytes => "network_bytes",
            Key::MemorySize => "memory_size",
            Key::Other(name) => name,
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

/// The interned copy of `name`, so that weights are `Copy`.
fn interned(name: &str) -> &'static &'static str {
    static NAMES: Mutex<BTreeMap<&str, &&str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let text: &'static str = Box::leak(Box::from(name));
    let name: &'static &'static str = Box::leak(Box::new(text));
    names.insert(text, name);
    name
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
