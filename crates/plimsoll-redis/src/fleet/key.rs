use std::fmt;
use std::sync::Arc;

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Outcome, Permit, Reason, Reservation, Snapshot,
    Source, Standing,
};

use super::shared::Shared;
use super::wait::{Closing, because};

/// The limit of one key of a [`Fleet`](super::Fleet), as a [`Limiter`]. Clones are the same limiter.
#[derive(Clone)]
pub struct FleetKey {
    shared: Arc<Shared>,
    key: Arc<[u8]>,
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

    fn known(&self, demand: Demand) -> Result<Permit<'static>, Denied> {
        self.check_open()?;
        self.shared.now().attempt(&self.key, demand)
    }

    fn check_open(&self) -> Result<(), Denied> {
        if self.closing.is_closed() {
            return Err(because(Reason::Closed, &self.shared.now().unknown()));
        }
        Ok(())
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

    fn attempt(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.known(demand)
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
        let permit = self.try_acquire(demand)?;
        let now = permit.granted_at();
        let ready = std::future::ready(Ok(permit));
        Ok(Reservation::from_future(now, Some(now), ready))
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

    fn is_remote(&self) -> bool {
        true
    }

    fn name(&self) -> Option<&str> {
        Some(self.shared.name())
    }

    fn clock(&self) -> &Clock {
        self.shared.clock()
    }

    fn source(&self) -> &dyn Source {
        self
    }

    /// In the background.
    fn charge(&self, cost: u32) {
        self.shared.now().charge(&self.key, cost);
    }
}

/// Where a permit goes back of which nobody knows any more how it was granted. Permits of this limiter have sources of
/// their own.
impl Source for FleetKey {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}

    fn to_shared(&self) -> Arc<dyn Source> {
        Arc::new(self.clone())
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
