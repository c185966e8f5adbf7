//! A cost that is known only after the tokens were taken.

use super::{Filling, TokenBucket};
use crate::Moment;

impl TokenBucket {
    /// The filling as if `actual` tokens had been taken at `taken` instead of `estimate`.
    ///
    /// A bucket does not record when it was full. Tokens that may have been lost since `taken` are never returned; a
    /// charge on top is paid by the refill since `taken`, unless later takes have used that up.
    pub(super) fn settled(
        &self,
        state: &mut Filling,
        now: Moment,
        taken: Moment,
        (estimate, actual): (u64, u64),
    ) {
        let taken_supply = self.supply(state.origin, taken.min(now));
        if let Some(more) = actual.checked_sub(estimate) {
            let full = state.full.max(taken_supply);
            state.full = full.saturating_add(self.price(more));
            return;
        }
        let supply = self.supply(state.origin, now);
        // Without the estimate the bucket may have been full, but not before the refill had paid for the actual cost.
        let lost = (supply - taken_supply).saturating_sub(self.price(actual));
        let back = self.price(estimate - actual).saturating_sub(lost);
        state.full = state.full.saturating_sub(back).max(supply);
    }
}
