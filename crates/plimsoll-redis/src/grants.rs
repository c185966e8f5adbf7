//! Grants that the store answers together.

use std::time::Duration;

use plimsoll::{Moment, Standing};

/// The grants of a run: the values of the next one.
pub(crate) struct Grants {
    pub(crate) left: u64,
    pub(crate) more: Option<Duration>,
    /// There is more after `more` and `window` / `used`, which grows with each grant. 0 if it is after `more`.
    pub(crate) window: u64,
    pub(crate) used: u64,
    /// The limit is full again after `owed` / `pace`; nobody knows when if `pace` is 0.
    pub(crate) owed: u64,
    /// The amount that each further grant adds to `owed`.
    pub(crate) rise: u64,
    pub(crate) pace: u64,
    pub(crate) taken: Moment,
    /// The time between two grants.
    pub(crate) step: Duration,
}

impl Grants {
    pub(crate) fn next(&mut self, limit: u64, cost: u64) -> (Standing, Moment) {
        let full = (self.pace > 0).then(|| Duration::from_nanos(self.owed.div_ceil(self.pace)));
        let later = Duration::from_nanos(self.window.div_ceil(self.used.max(1)));
        let more = self.more.map(|more| more.saturating_add(later));
        let standing = Standing::new(limit, self.left).more_after(more);
        let taken = self.taken;
        self.skip(1, cost);
        (standing.reset(full), taken)
    }

    pub(crate) fn skip(&mut self, count: u64, cost: u64) {
        let amount = count.saturating_mul(cost);
        self.left = self.left.saturating_sub(amount);
        self.used = self.used.saturating_add(amount);
        self.owed = self.owed.saturating_add(count.saturating_mul(self.rise));
        let steps = u32::try_from(count).unwrap_or(u32::MAX);
        self.taken = self.taken.plus(self.step.saturating_mul(steps));
    }
}
