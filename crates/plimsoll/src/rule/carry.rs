/// What becomes of what is there when a limit [changes](crate::Gate::replace).
///
/// Of a limit of 10 of which 8 are used, when it becomes a limit of 100:
///
/// | carry | of a bucket | of a window | choose it when |
/// |---|---|---|---|
/// | [`Used`](Self::Used) | 92 | 92 | the limit was raised or lowered, and what was spent counts against the new one |
/// | [`AsIs`](Self::AsIs) | 2 | 92 | no caller is to gain tokens by a change; the new rate refills the rest |
/// | [`Proportional`](Self::Proportional) | 20 | 20 | the same use is counted in another unit |
/// | [`Reset`](Self::Reset) | 100 | 100 | the past does not matter |
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
pub enum Carry {
    /// What the rule remembers stays as it is: a bucket keeps its tokens as far as there is room for them, and its
    /// debt; a window keeps what was taken in it.
    AsIs,
    /// What was used stays used, debts too; the rest of the new limit is available.
    Used,
    /// What is there stays in proportion to the room there is for it.
    Proportional,
    /// It is forgotten: the limit starts anew.
    Reset,
}

impl Carry {
    /// What counts as used of a window of `limit` that takes over from one of `old_limit`. It may be more than
    /// the limit: what was used does not become less by that, should the limit grow again.
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
