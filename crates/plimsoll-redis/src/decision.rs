use plimsoll::{Denied, LeaseState, Lost, Moment, Standing};

use crate::StoreError;
use crate::event_reports::ReturnEvent;
use crate::lease::Lease;

/// The decision of a store.
///
/// ```no_run
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Decision, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// match api.decide("customer 42", 1).await? {
///     Decision::Granted(permit) => println!("{:?} left", permit.standing().remaining),
///     Decision::Denied(denied) => println!("retry after {:?}", denied.retry_after()),
/// }
/// # Ok(())
/// # }
/// ```
///
/// The enum is exhaustive: a decision grants or denies. New reasons to deny are added to [`Reason`](plimsoll::Reason);
/// if a store cannot decide, the call returns a [`StoreError`].
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// The demand is within the limit.
    Granted(RedisPermit),
    /// The demand is over the limit. Carries the reason and the time to retry.
    Denied(Denied),
}

impl Decision {
    /// Returns whether the demand is granted.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// Converts to a `Result`, with the refusal as the error.
    ///
    /// # Errors
    ///
    /// Returns an error if the demand was refused.
    pub fn into_result(self) -> Result<RedisPermit, Denied> {
        match self {
            Self::Granted(permit) => Ok(permit),
            Self::Denied(denied) => Err(denied),
        }
    }
}

/// A grant. Dropping it releases its [leases](crate::RedisRule::lease) in the background; the permits of rates have none, and
/// dropping them does nothing: a rate refills with time.
///
/// ```no_run
/// use plimsoll::Concurrency;
/// use plimsoll_redis::Store;
///
/// # async fn work(fence: Option<u64>) {}
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let jobs = store.limiter("jobs", Concurrency::new(5))?;
/// let permit = jobs.decide("tenant 42", 1).await?.into_result()?;
/// tokio::select! {
///     () = work(permit.fence()) => {}
///     // Another process may hold the slot now.
///     () = permit.lost() => {}
/// }
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a permit is returned when it is dropped"]
pub struct RedisPermit {
    cost: u64,
    standing: Standing,
    /// The moment of the grant, on the clock of the store.
    taken: Moment,
    // Dropped before `return_events`, which report the release.
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

    /// Adds the events that are emitted when the permit is dropped.
    pub(crate) fn return_events(mut self, events: impl IntoIterator<Item = ReturnEvent>) -> Self {
        self.return_events.extend(events);
        self
    }

    /// Whether it holds a lease.
    pub(crate) fn is_leased(&self) -> bool {
        !self.leases.is_empty()
    }

    pub(crate) fn taken_at(mut self, moment: Moment) -> Self {
        self.taken = moment;
        self
    }

    /// The moment of the grant, on the clock of the store.
    pub(crate) fn taken(&self) -> Moment {
        self.taken
    }

    /// Returns the granted cost.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the standing after the grant; of several limits, that of the one with the least remaining.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns whether a lease expired because it could not be renewed in time. Another process may hold its slot now.
    ///
    /// A lease expires when its length has passed since its last renewal was sent, on the clock of this process, even if the store
    /// cannot be reached.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.states().any(LeaseState::is_lost)
    }

    /// Returns a future that resolves when a lease is lost; never, if there is none.
    pub fn lost(&self) -> Lost {
        Lost::of(self.states().cloned())
    }

    /// Returns the [fencing token](LeaseState::fence) of its lease, if it has one.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.states().map(LeaseState::fence).max()
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = &LeaseState> {
        self.leases.iter().filter_map(Lease::state)
    }

    /// Releases the leases and waits for the store. Dropping the permit does the same in the background.
    ///
    /// Returns `false` if a lease had already expired. Its slot, which another process may hold, is then not released.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer. The release is retried in the background until the lease expires.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let mut held = true;
        for lease in std::mem::take(&mut self.leases) {
            held &= lease.release().await?;
        }
        Ok(held)
    }

    /// Drops the permit without releasing it. A lease then expires after its length.
    pub fn forget(mut self) {
        // The permit is never returned, so no event reports it.
        self.return_events.drain(..).for_each(ReturnEvent::forget);
        std::mem::take(&mut self.leases)
            .into_iter()
            .for_each(Lease::abandon);
    }
}
