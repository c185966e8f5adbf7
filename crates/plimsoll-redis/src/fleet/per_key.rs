//! [`PerKey`] for fleets.

use std::sync::Arc;

use plimsoll::{Acquire, Demand, Denied, PerKey, Permit, Standing};

use super::Fleet;
use crate::StoreKey;

/// The bytes of a key.
pub(super) fn bytes(key: &(impl StoreKey + ?Sized)) -> Arc<[u8]> {
    key.to_key().into()
}

/// Keys with the same [bytes](StoreKey) share a limit.
impl<Q: StoreKey + ?Sized> PerKey<Q> for Fleet {
    fn try_acquire(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        let inner = self.shared.now();
        match inner.attempt(&bytes(key), demand) {
            Ok(permit) => Ok(permit),
            Err(denied) => inner.counted(Err(denied)),
        }
    }

    fn attempt(&self, key: &Q, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.shared.now().attempt(&bytes(key), demand)
    }

    fn acquire_owned(&self, key: &Q, demand: Demand) -> Acquire<'static> {
        let shared = Arc::clone(&self.shared);
        let asked = shared.acquire(bytes(key), demand, Arc::default());
        Acquire::from_future(asked)
    }

    /// Undoes the grant in the background. The permit carries its key.
    fn undo(&self, _key: &Q, permit: Permit<'_>) {
        permit.undo();
    }

    /// Charges in the background.
    fn charge(&self, key: &Q, cost: u64) {
        self.shared.now().charge(&bytes(key), cost);
    }

    /// Unknown, unless permits are borrowed. Each permit carries the standing after its grant.
    fn standing(&self, key: &Q) -> Standing {
        self.shared.now().standing(&bytes(key))
    }

    fn promise(&self) -> Standing {
        self.shared.now().promise()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn name(&self) -> Option<&str> {
        Some(self.shared.name())
    }
}
