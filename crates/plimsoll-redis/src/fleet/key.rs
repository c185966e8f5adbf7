use std::fmt;
use std::sync::Arc;

use plimsoll::{
    Acquire, Clock, Demand, Denied, Limiter, Permit, Reason, Reservation, Shareable, Snapshot,
    Standing,
};

use super::shared::Shared;
use super::wait::{Closing, because};
use crate::StoreError;

/// One key of a [`Fleet`](super::Fleet), as a [`Limiter`]. Clones share one limiter.
///
/// ```no_run
/// use plimsoll::{Limiter, TokenBucket};
/// use plimsoll_redis::Store;
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?.fleet().build()?;
/// let customer = api.key("customer 42");
/// let permit = customer.acquire(1.into()).await?;
/// println!("{:?} left", customer.ask_standing().await?.remaining);
/// # Ok(())
/// # }
/// ```
///
/// A [`FleetKey`] that is closed refuses later demands with the reason [`Closed`](Reason::Closed), and wakes its
/// waiters. The state of the key in the store stays.
#[derive(Clone)]
pub struct FleetKey {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Arc<[u8]>,
    closing: Arc<Closing>,
}

impl FleetKey {
    pub(super) fn new(shared: Arc<Shared>, key: Arc<[u8]>) -> Self {
        Self {
            shared,
            key,
            closing: Arc::default(),
        }
    }

    /// Refunds `amount` for work that was not done, in the background, at most up to the limit. Has no effect on leases, which only
    /// their holders release. A failed refund is counted in [`FleetTotals::lost`](super::FleetTotals::lost).
    ///
    /// ```no_run
    /// use plimsoll::Limiter;
    /// use plimsoll_redis::FleetKey;
    ///
    /// async fn send(mails: &FleetKey, batch: &[String]) -> Result<(), plimsoll::Denied> {
    ///     let _permit = mails.acquire((batch.len() as u64).into()).await?;
    ///     let failed = 3; // mails that could not be sent
    ///     mails.refund(failed);
    ///     Ok(())
    /// }
    /// ```
    pub fn refund(&self, amount: u64) {
        self.shared.now().refund(&self.key, amount);
    }

    fn known(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        self.check_open()?;
        self.shared.now().attempt(&self.key, demand)
    }

    pub(super) fn check_open(&self) -> Result<(), Denied> {
        if self.closing.is_closed() {
            return Err(because(Reason::Closed, &self.shared.now().unknown()));
        }
        Ok(())
    }

    /// Reads the standing of this key from the store. Takes nothing and writes no key. In contrast,
    /// [`Limiter::standing`] does not call the store, and usually does not know the remainder.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    ///
    /// ```no_run
    /// use plimsoll_redis::FleetKey;
    ///
    /// async fn report(customer: &FleetKey) -> Result<(), plimsoll_redis::StoreError> {
    ///     let standing = customer.ask_standing().await?;
    ///     println!("{:?} of {} left", standing.remaining, standing.limit);
    ///     Ok(())
    /// }
    /// ```
    pub async fn ask_standing(&self) -> Result<Standing, StoreError> {
        let now = self.shared.now();
        let standing = now.limiter().estimate(&self.key, 0).await?;
        let none = |denied: Denied| {
            let standing = Standing::of_limit(denied.limit());
            standing.remaining(Some(0)).more_after(denied.retry_after())
        };
        Ok(now.promised(standing.unwrap_or_else(none)))
    }

    async fn ask(self, demand: Demand) -> Result<Permit<'static>, Denied> {
        self.check_open()?;
        self.shared.acquire(self.key, demand, self.closing).await
    }
}

impl Limiter for FleetKey {
    /// Decides without the store, or refuses with the reason [`Unavailable`](Reason::Unavailable) if that is not
    /// possible.
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.known(demand) {
            Ok(permit) => Ok(permit),
            Err(denied) => self.shared.now().counted(Err(denied)),
        }
    }

    /// Calls the store, and waits after a refusal if [`waiting`](super::FleetBuilder::waiting) allows it.
    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        let asked = self.clone().ask(demand);
        Acquire::from_future(async move {
            let permit = asked.await?;
            Ok(permit)
        })
    }

    fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        Acquire::from_future(self.clone().ask(demand))
    }

    /// Grants only what is available in this process now: a store makes no reservations for a fleet.
    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        self.try_acquire(demand).map(Reservation::ready)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.check_open()?;
        self.shared.now().estimate(&self.key, demand)
    }

    /// The limit, and the grants and refusals of this process for all keys. Only the store knows what is available, so the snapshot
    /// reports the whole limit.
    fn snapshot(&self) -> Snapshot {
        self.shared.now().snapshot()
    }

    /// Unknown, unless permits are borrowed. Each permit carries the standing after its grant.
    fn standing(&self) -> Standing {
        self.shared.now().standing(&self.key)
    }

    /// Closes this limiter and its clones. The store and other limiters with this key are not affected.
    fn close(&self) {
        self.closing.close();
    }

    fn name(&self) -> Option<&str> {
        Some(self.shared.name())
    }

    fn clock(&self) -> &Clock {
        self.shared.clock()
    }

    fn internals(&self) -> Option<&dyn plimsoll::Internals> {
        Some(self)
    }
}

impl plimsoll::Internals for FleetKey {
    fn source(&self) -> Option<&dyn Shareable> {
        None
    }

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.known(demand)
    }

    /// Charges in the background.
    fn charge(&self, cost: u64) {
        self.shared.now().charge(&self.key, cost);
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Hides the key, which may be a secret.
impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetKey")
            .field("limiter", self.shared.now().limiter())
            .finish_non_exhaustive()
    }
}
