use std::fmt;
use std::sync::Arc;

use plimsoll::{
    Acquire, Clock, Demand, Denied, Limiter, Permit, Reason, Reservation, Shareable, Snapshot,
    Standing,
};

use super::shared::Shared;
use super::wait::{Closing, because};
use crate::StoreError;

/// The limit of one key of a [`Fleet`](super::Fleet), as a [`Limiter`]. Clones are the same limiter.
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

    /// Gives back `amount` that was taken for work which was not done, in the background, at most up to the limit. What is
    /// held by leases only they give back.
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

    /// How much is left of this key, as the store says. Takes nothing, and leaves no key behind.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
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
    /// Decides what is known here; otherwise it is [`Unavailable`](Reason::Unavailable).
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        match self.known(demand) {
            Ok(permit) => Ok(permit),
            Err(denied) => self.shared.now().counted(Err(denied)),
        }
    }

    /// Asks the store, and waits where that was [allowed](super::FleetBuilder::waiting).
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

    /// Grants what is known here to be free now: the store takes nothing ahead of time.
    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        self.try_acquire(demand).map(Reservation::ready)
    }

    fn estimate(&self, demand: Demand) -> Result<(), Denied> {
        self.check_open()?;
        self.shared.now().estimate(&self.key, demand)
    }

    /// The limit, and what was granted and refused here, to all keys. What is available only the store knows: all
    /// of it is said to be.
    fn snapshot(&self) -> Snapshot {
        self.shared.now().snapshot()
    }

    /// Unknown, unless some of it is borrowed: what was left comes with every permit.
    fn standing(&self) -> Standing {
        self.shared.now().standing(&self.key)
    }

    /// Closes this limiter and its clones. The store knows nothing of it, and so do others who use the key.
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

    /// In the background.
    fn charge(&self, cost: u64) {
        self.shared.now().charge(&self.key, cost);
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Without its key, which may be a secret.
impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetKey")
            .field("limiter", self.shared.now().limiter())
            .finish_non_exhaustive()
    }
}
