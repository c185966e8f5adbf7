//! Which terms keys had in a process before this one.

use super::{Limit, Plan};

impl Plan {
    /// The limit of whose tiers the limiter with this id is one, and which terms those are.
    pub(crate) fn tier_by_id(&self, id: &str) -> Option<(usize, usize)> {
        let (limit, tier) = id.strip_suffix(']')?.split_once(".tiers[")?;
        let limit = self.limit(limit)?;
        let terms = self.limits[limit].tiers.as_ref()?.of.get(tier)?;
        Some((limit, *terms))
    }
}

impl Limit {
    /// Whether a key was asked by these terms last, and by others than those of the limit itself.
    pub(crate) fn is_last(&self, key: &str, terms: usize) -> bool {
        let number = self.number(terms);
        number.is_some_and(|number| self.seen.last_terms().get(key) == number)
    }

    /// Notes that a key was asked by these terms last.
    pub(crate) fn note_last(&self, key: &str, terms: usize) {
        if let Some(number) = self.number(terms) {
            self.seen.last_terms().note(key, number);
        }
    }

    /// The number of terms among those that keys were asked by last; `None` for those of the limit itself.
    fn number(&self, terms: usize) -> Option<u64> {
        self.others.get(terms.checked_sub(1)?)?.number
    }
}
