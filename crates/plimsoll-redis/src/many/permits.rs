use std::fmt;

use plimsoll::{LeaseState, Lost};

use super::subject::Subject;
use super::subjects::Subjects;
use crate::StoreError;
use crate::event_reports::ReturnEvent;
use crate::lease::Lease;

/// The permits of a decision about several limits. Dropping them releases their [leases](crate::RedisRule::lease); rates have none, they
/// refill with time.
#[must_use = "permits are returned when they are dropped"]
pub struct StorePermits {
    taken: Subjects,
}

impl StorePermits {
    pub(super) fn new(subjects: Subjects) -> Self {
        Self {
            taken: subjects.taken(),
        }
    }

    /// Returns whether one of the leases expired because it could not be renewed in time. See
    /// [`RedisPermit::is_lost`](crate::RedisPermit::is_lost).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.states().any(LeaseState::is_lost)
    }

    /// Returns a future that resolves when one of the leases is lost; never, if there is none.
    pub fn lost(&self) -> Lost {
        Lost::of(self.states().cloned())
    }

    fn states(&self) -> impl Iterator<Item = &LeaseState> {
        let leases = self.taken.each().iter().filter_map(Subject::lease);
        leases.filter_map(Lease::state)
    }

    /// Undoes the decision, also for rates, and waits for the store. Use it for work that was not done. Takes one round
    /// trip; in a cluster, one for each hash slot.
    ///
    /// Units that have been refilled since, or that no longer count, are not refunded again. A
    /// [gap](plimsoll::SlidingLog::min_gap) that the grant began stays in effect if there were later grants.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer. Rates then stay charged, and leases are released in the
    /// background.
    pub async fn undo(mut self) -> Result<(), StoreError> {
        self.taken.undo_all().await
    }

    /// Releases the leases and waits for the store. Dropping the permits does the same in the background.
    ///
    /// Returns `false` if a lease had already expired.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer. The release is retried in the background until the leases expire.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let mut held = true;
        for lease in self.leases() {
            held &= lease.release().await?;
        }
        Ok(held)
    }

    /// Drops the permits without releasing them. Leases then expire after their length.
    pub fn forget(mut self) {
        // The permits are never returned, so no event reports it.
        let events = self.taken.each_mut().filter_map(Subject::take_return_event);
        events.for_each(ReturnEvent::forget);
        self.leases().into_iter().for_each(Lease::abandon);
    }

    fn leases(&mut self) -> Vec<Lease> {
        let subjects = self.taken.each_mut();
        subjects.filter_map(Subject::take_lease).collect()
    }
}

/// Hides the keys, which may be secrets.
impl fmt::Debug for StorePermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.taken.each().iter().map(|it| it.limiter().name());
        f.debug_tuple("StorePermits")
            .field(&names.collect::<Vec<_>>())
            .finish()
    }
}
