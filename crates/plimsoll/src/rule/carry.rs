/// How usage is carried over when a limit is [replaced](crate::Gate::replace).
///
/// For a limit of 10 with 8 used that is replaced by a limit of 100, the remainder is:
///
/// | carry | bucket | window | choose it when |
/// |---|---|---|---|
/// | [`Used`](Self::Used) | 92 | 92 | the limit was raised or lowered, and usage counts against the new one |
/// | [`AsIs`](Self::AsIs) | 2 | 92 | no caller should gain tokens by a change; the new rate refills the rest |
/// | [`Proportional`](Self::Proportional) | 20 | 20 | the same usage is counted in another unit |
/// | [`Reset`](Self::Reset) | 100 | 100 | earlier usage does not matter |
///
/// ```
/// use plimsoll::{Carry, Gate, ManualClock, Quota, TokenBucket};
///
/// let left = |carry| {
///     let gate = Gate::builder(TokenBucket::greedy(Quota::per_hour(10)));
///     let gate = gate.clock(ManualClock::new().clock()).build();
///     gate.charge(8);
///     gate.replace(TokenBucket::greedy(Quota::per_hour(100)), carry);
///     gate.snapshot().available()
/// };
/// let all = [Carry::Used, Carry::AsIs, Carry::Proportional, Carry::Reset].map(left);
/// assert_eq!(all, [92, 2, 20, 100]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Carry {
    /// The state stays as it is. A bucket keeps its tokens, up to the new burst, and its debt; a window keeps its
    /// usage.
    AsIs,
    /// The usage stays the same, including debt; the rest of the new limit is available.
    Used,
    /// The available share of the limit stays the same.
    Proportional,
    /// The usage is discarded.
    Reset,
}

impl Carry {
    /// The usage of a window of `limit` that replaces one of `old_limit`. It may be more than the limit: the usage must
    /// not shrink if the limit grows again.
    pub(crate) fn used(self, used: u64, old_limit: u64, limit: u64) -> u64 {
        let used = match self {
            Self::Reset => 0,
            Self::AsIs | Self::Used => u128::from(used),
            Self::Proportional => {
                let product = u128::from(used) * u128::from(limit);
                product.div_ceil(u128::from(old_limit.max(1)))
            }
        };
        u64::try_from(used).unwrap_or(u64::MAX)
    }
}
