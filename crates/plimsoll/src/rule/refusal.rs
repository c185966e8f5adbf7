use crate::Moment;
use crate::reason::Reason;

/// Why a rule does not grant now, and when it would.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) ready_at: Moment,
    pub(crate) full_at: Moment,
}

impl Refusal {
    /// Not before `ready_at`.
    #[must_use]
    pub const fn until(ready_at: Moment) -> Self {
        Self {
            reason: Reason::Exhausted,
            ready_at,
            full_at: Moment::NEVER,
        }
    }

    /// Not before a permit is returned, which no rule can foresee.
    #[must_use]
    pub const fn until_returned() -> Self {
        Self::until(Moment::NEVER)
    }

    /// With another reason than [`Reason::Exhausted`].
    #[must_use]
    pub const fn because(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Adds the moment at which everything is available again. [`Packed::take_packed`](crate::Packed::take_packed)
    /// should: the fast path asks no further.
    #[must_use]
    pub const fn full_at(mut self, full_at: Moment) -> Self {
        self.full_at = full_at;
        self
    }

    /// When the cost would fit if nothing else were taken, if that is known.
    #[must_use]
    pub fn ready_at(self) -> Option<Moment> {
        self.ready_at.is_known().then_some(self.ready_at)
    }
}
