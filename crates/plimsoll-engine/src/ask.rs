/// One ask: a limit by name, a key and a cost.
///
/// A decision takes a slice of asks and grants all of them or none. See [`Limits::decide`](crate::Limits::decide).
///
/// ```
/// use plimsoll_engine::Ask;
///
/// let ask = Ask::new("tokens").key("account 7").cost(1200);
/// assert_eq!((ask.limit, ask.key, ask.cost), ("tokens", Some("account 7"), 1200));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// The name of the limit.
    pub limit: &'a str,
    /// The key, for a limit with keys. All asks without a key share one state.
    pub key: Option<&'a str>,
    /// The tier of the key, for a limit with tiers. Without one the default tier of the limit applies.
    pub tier: Option<&'a str>,
    /// The cost; 1 unless set.
    pub cost: u64,
}

impl<'a> Ask<'a> {
    /// Creates an ask for 1, without a key or a tier.
    #[must_use]
    pub const fn new(limit: &'a str) -> Self {
        Self {
            limit,
            key: None,
            tier: None,
            cost: 1,
        }
    }

    /// Sets the [`key`](Self#structfield.key).
    #[must_use]
    pub const fn key(mut self, key: &'a str) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the [`tier`](Self#structfield.tier).
    #[must_use]
    pub const fn tier(mut self, tier: &'a str) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Sets the [`cost`](Self#structfield.cost).
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}

impl std::fmt::Debug for Ask<'_> {
    /// Leaves out the key, because it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("limit", &self.limit)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
