use std::fmt;

use plimsoll::{LeaseState, Lost};

use super::subject::Subject;
use super::subjects::Subjects;
use crate::StoreError;
use crate::event_reports::ReturnEvent;
use crate::lease::Lease;

/// What a decision about many subjects took. What is held by [leases](crate::RedisRule::lease) is returned when it is
/// dropped; rates refill by themselves.
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

    /// Whether one of the leases ran out because it could not be renewed in time. See
    /// [`RedisPermit::is_lost`](crate::RedisPermit::is_lost).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.states().any(LeaseState::is_lost)
    }

    /// Resolves when one of the leases is lost; never, if there is none.
    pub fn lost(&self) -> Lost {
        Lost::of(self.states().cloned())
    }

    fn states(&self) -> impl Iterator<Item = &LeaseState> {
        let leases = self.taken.each().iter().filter_map(Subject::lease);
        leases.filter_map(Lease::state)
    }

    /// As if nothing had been taken, also of rates, and waits until the store knows: for work that turned out not to be
    /// needed. Takes one round trip; in a cluster one for each hash slot.
    ///
    /// What has been replenished since is not returned again, nor is what counts no more; the time of a
    /// [gap](plimsoll::SlidingLog::min_gap) that was begun counts on if others came later.
    ///
    /// # Errors
    ///
    /// If the store does not answer. Then rates stay charged, and leases are returned in the background.
    pub async fn undo(mut self) -> Result<(), StoreError> {
        self.taken.undo_all().await
    }

    /// Returns what is held by leases, and waits until the store knows. Dropping it does the same in the background.
    ///
    /// Says whether all of it was still held.
    ///
    /// # Errors
    ///
    /// If the store does not answer. It is tried again in the background until the leases have run out.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let mut held = true;
        for lease in self.leases() {
            held &= lease.release().await?;
        }
        Ok(held)
    }

    /// Never returns it. What is held by leases comes back when they run out.
    pub fn forget(mut self) {
        // It is never returned, so no event reports its return.
        let events = self.taken.each_mut().filter_map(Subject::take_return_event);
        events.for_each(ReturnEvent::forget);
        self.leases().into_iter().for_each(Lease::abandon);
    }

    fn leases(&mut self) -> Vec<Lease> {
        let subjects = self.taken.each_mut();
        subjects.filter_map(Subject::take_lease).collect()
    }
}

/// Without keys: they may be secrets.
impl fmt::Debug for StorePermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.taken.each().iter().map(|it| it.limiter().name());
        f.debug_tuple("StorePermits")
            .field(&names.collect::<Vec<_>>())
            .finish()
    }
}
