//! A rule as a user of this crate writes it: one file, the eight required items, nothing else.

use plimsoll::{Moment, Packed, Refusal, Rule};

/// The generic cell rate algorithm: one unit every `gap` nanoseconds, of which `limit` may come at once.
#[derive(Clone, Debug)]
pub(crate) struct Gcra {
    pub(crate) limit: u64,
    pub(crate) gap: u64,
}

impl Gcra {
    fn span(&self, units: u64) -> u64 {
        self.gap.saturating_mul(units)
    }
}

impl Rule for Gcra {
    /// When everything that was taken has been refilled.
    type State = Moment;
    type Fast = Self;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn fresh(&self, now: Moment) -> Moment {
        now
    }

    fn take(&self, full: &mut Moment, now: Moment, cost: u64) -> Result<(), Refusal> {
        let next = (*full).max(now).plus_nanos(self.span(cost));
        let wait = next.nanos_since(now.plus_nanos(self.span(self.limit)));
        if wait > 0 {
            return Err(Refusal::until(now.plus_nanos(wait)));
        }
        *full = next;
        Ok(())
    }

    fn available(&self, full: &Moment, now: Moment) -> u64 {
        let left = self.span(self.limit).saturating_sub(full.nanos_since(now));
        left / self.gap
    }

    fn refund(&self, full: &mut Moment, now: Moment, taken: Moment, cost: u64) {
        // What was refilled since it was taken is not refunded.
        let back = self.span(cost).saturating_sub(now.nanos_since(taken));
        let nanos = full.as_nanos().saturating_sub(back);
        *full = Moment::from_nanos(nanos).max(now);
    }

    fn full_at(&self, full: &Moment, now: Moment) -> Option<Moment> {
        Some((*full).max(now))
    }
}

/// A state of one word, so that decisions need no lock.
impl Packed<Self> for Gcra {
    fn pack(_rule: &Self, full: &Moment, _now: Moment) -> Option<u64> {
        Some(full.as_nanos()).filter(|word| *word < 1 << 63)
    }

    fn unpack(_rule: &Self, word: u64, _now: Moment) -> Moment {
        Moment::from_nanos(word)
    }
}
