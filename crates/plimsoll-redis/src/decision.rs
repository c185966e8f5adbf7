use plimsoll::{Denied, LeaseState, Lost, Moment, Standing};

use crate::StoreError;
use crate::event_reports::ReturnEvent;
use crate::lease::Lease;

/// What a store decided.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Go ahead.
    Granted(RedisPermit),
    /// Over the limit: why, and when to come back.
    Denied(Denied),
}

impl Decision {
    /// Whether it is granted.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// The permit, or the refusal as an error.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn into_result(self) -> Result<RedisPermit, Denied> {
        match self {
            Self::Granted(permit) => Ok(permit),
            Self::Denied(denied) => Err(denied),
        }
    }
}

/// A grant. What is held by a [lease](crate::RedisRule::lease) is returned when the permit is dropped; rates refill by
/// themselves.
#[derive(Debug)]
#[must_use = "a permit is returned when it is dropped"]
pub struct RedisPermit {
    cost: u64,
    standing: Standing,
    /// By the clock of the store.
    taken: Moment,
    // Before what tells of its return.
    leases: Vec<Lease>,
    return_events: Vec<ReturnEvent>,
}

impl RedisPermit {
    pub(crate) fn new(cost: u64, standing: Standing, leases: Vec<Lease>) -> Self {
        Self {
            cost,
            standing,
            taken: Moment::ORIGIN,
            leases,
            return_events: Vec::new(),
        }
    }

    /// Tells of its return.
    pub(crate) fn return_events(mut self, events: impl IntoIterator<Item = ReturnEvent>) -> Self {
        self.return_events.extend(events);
        self
    }

    /// Whether anything is returned.
    pub(crate) fn is_leased(&self) -> bool {
        !self.leases.is_empty()
    }

    pub(crate) fn taken_at(mut self, moment: Moment) -> Self {
        self.taken = moment;
        self
    }

    /// When it was taken, by the clock of the store.
    pub(crate) fn taken(&self) -> Moment {
        self.taken
    }

    /// How much was granted.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How much of the limit was left after it; of several limits, of the one of which least is left.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether a lease ran out because it could not be renewed in time. What it held may be another's by now.
    ///
    /// By the clock of this process it has run out when its length has passed since it was last asked for, whether the store
    /// can be reached or not.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.states().any(LeaseState::is_lost)
    }

    /// Resolves when a lease is lost; never, if there is none.
    pub fn lost(&self) -> Lost {
        Lost::of(self.states().cloned())
    }

    /// The [fencing number](LeaseState::fence) of its lease, if it is held by one.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.states().map(LeaseState::fence).max()
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = &LeaseState> {
        self.leases.iter().filter_map(Lease::state)
    }

    /// Gives it back and waits until the store knows. Dropping it does the same in the background.
    ///
    /// Says whether it was still held: if a lease had run out, nothing is returned that may be another's.
    ///
    /// # Errors
    ///
    /// If the store does not answer. It is tried again in the background until the lease has run out.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let mut held = true;
        for lease in std::mem::take(&mut self.leases) {
            held &= lease.release().await?;
        }
        Ok(held)
    }

    /// Never gives it back. What is held by a lease comes back when the lease runs out.
    pub fn forget(mut self) {
        // It is never returned, so no event reports its return.
        self.return_events.drain(..).for_each(ReturnEvent::forget);
        std::mem::take(&mut self.leases)
            .into_iter()
            .for_each(Lease::abandon);
    }
}
