//! What a task saw, and what may be true of it.

use std::time::Duration;

use plimsoll_redis::{StoreError, StoreErrorKind};

/// What those who asked alike were answered.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) granted: u64,
    /// Of these, by the setting for outages.
    pub(crate) granted_alone: u64,
    pub(crate) denied: u64,
    /// Nobody knows whether it was charged.
    pub(crate) unknown: u64,
    /// Nothing was sent; or, where the error is not seen, the setting for outages answered.
    pub(crate) not_asked: u64,
    /// Not charged: the server said so.
    pub(crate) rejected: u64,
    /// The longest anybody waited for an answer.
    pub(crate) longest: Duration,
}

impl Tally {
    pub(crate) fn failed(&mut self, error: &StoreError) {
        match error.kind() {
            StoreErrorKind::TimedOut | StoreErrorKind::Unreachable => self.unknown += 1,
            StoreErrorKind::CircuitOpen => self.not_asked += 1,
            StoreErrorKind::Moving | StoreErrorKind::ReadOnly => self.rejected += 1,
            kind => panic!("{kind:?}: {error}"),
        }
    }

    pub(crate) fn undecided(&self) -> u64 {
        self.unknown + self.not_asked + self.rejected
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            granted: self.granted + other.granted,
            granted_alone: self.granted_alone + other.granted_alone,
            denied: self.denied + other.denied,
            unknown: self.unknown + other.unknown,
            not_asked: self.not_asked + other.not_asked,
            rejected: self.rejected + other.rejected,
            longest: self.longest.max(other.longest),
        }
    }
}
