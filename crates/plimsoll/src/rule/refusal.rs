use crate::Moment;
use crate::reason::Reason;

/// The refusal of a [`Rule`](crate::Rule): a reason, and the moment at which the demand would be granted.
///
/// ```
/// use plimsoll::{Moment, Reason, Refusal};
///
/// let refusal = Refusal::until(Moment::from_nanos(500)).with_reason(Reason::TooSoon);
/// assert_eq!(refusal.ready_at(), Some(Moment::from_nanos(500)));
/// assert_eq!(Refusal::until_returned().ready_at(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) ready_at: Moment,
    pub(crate) full_at: Moment,
}

impl Refusal {
    /// Creates a refusal until `ready_at`, with [`Reason::Exhausted`].
    #[must_use]
    pub const fn until(ready_at: Moment) -> Self {
        Self {
            reason: Reason::Exhausted,
            ready_at,
            full_at: Moment::NEVER,
        }
    }

    /// Creates a refusal until a permit is returned, at a moment that no rule can foresee.
    #[must_use]
    pub const fn until_returned() -> Self {
        Self::until(Moment::NEVER)
    }

    /// Sets the reason. Default: [`Reason::Exhausted`].
    #[must_use]
    pub const fn with_reason(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Sets the moment at which the whole limit is available again. [`Packed::take_packed`](crate::Packed::take_packed)
    /// should set it: the fast path does not ask for it separately.
    #[must_use]
    pub const fn with_full_at(mut self, full_at: Moment) -> Self {
        self.full_at = full_at;
        self
    }

    /// Returns the moment at which the cost would fit if nothing else were taken, if that is known.
    #[must_use]
    pub fn ready_at(self) -> Option<Moment> {
        self.ready_at.is_known().then_some(self.ready_at)
    }
}
