//! Leases: permits that are returned even if their holder crashes.
//!
//! A lease is a unique id, stored in Redis with the moment at which it expires. While the permit is held, its lease is renewed three
//! times in its length, by one task for all leases of a limiter. A holder that crashes does not renew. An expired lease cannot be
//! released, because its id is no longer stored.
//!
//! A lease that is not renewed is lost when its length has passed on the clock of this process since the last renewal was sent. The
//! server counts from a later moment, so no other process gets the slot before. A release that fails is retried until the lease has
//! expired.

mod release;
mod renew;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Clock, LeaseState, Moment};
use tokio::runtime::Handle;

use crate::{Store, StoreError};
use release::{Return, Returns};

/// The leases of one limiter that this process holds.
pub(crate) struct Leases {
    store: Store,
    clock: Clock,
    length: Duration,
    held: Mutex<HeldLeases>,
    returns: Mutex<Returns>,
    failures: AtomicU64,
}

/// Held leases by key, and by the member of the key's sorted set: the id and the cost.
#[derive(Default)]
struct HeldLeases {
    keys: HashMap<Vec<u8>, HashMap<String, Holding>>,
    renewing: bool,
    watching: bool,
}

struct Holding {
    state: LeaseState,
    /// The moment at which it is lost unless it is renewed, on the clock of this process.
    ends: Moment,
}

/// A lease that is requested, and then held.
pub(crate) struct Lease {
    leases: Arc<Leases>,
    key: Vec<u8>,
    member: String,
    cost: u64,
    asked: Moment,
    /// `None` until it is granted.
    state: Option<LeaseState>,
    /// The runtime on which its drop releases it.
    runtime: Option<Handle>,
}

/// The prefix of all ids of this process: two random numbers of 64 bits.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    let draw = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", draw(), draw())
});

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Leases {
    pub(crate) fn new(store: Store, length: Duration) -> Arc<Self> {
        Arc::new(Self {
            clock: store.clock(),
            store,
            length,
            held: Mutex::default(),
            returns: Mutex::default(),
            failures: AtomicU64::new(0),
        })
    }

    /// A unique id. It ends with the length of the lease in microseconds, from which scripts detect leases that were written before the
    /// clock of the server stepped back.
    pub(crate) fn new_id(&self) -> String {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let micros = self.length.as_nanos().div_ceil(1000);
        format!("{}-{number}~{micros}", *PROCESS)
    }

    /// Creates a lease before it is requested. Its drop releases it, so that a late reply does not leave a slot held.
    /// Releasing a lease that was never granted has no effect.
    pub(crate) fn ask(self: &Arc<Self>, key: Vec<u8>, id: &str, cost: u64) -> Lease {
        Lease {
            leases: Arc::clone(self),
            key,
            member: format!("{id}:{cost}"),
            cost,
            asked: self.clock.precise_now(),
            state: None,
            runtime: Handle::try_current().ok(),
        }
    }

    pub(crate) fn length(&self) -> Duration {
        self.length
    }

    /// The number of failed renewals and failed first releases.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, HeldLeases> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to renew a lease, and to watch for its loss.
    fn track(self: &Arc<Self>, lease: &Lease, state: &LeaseState) {
        let mut held = self.held();
        let members = held.keys.entry(lease.key.clone()).or_default();
        let holding = Holding {
            state: state.clone(),
            ends: lease.asked.plus(self.length),
        };
        members.insert(lease.member.clone(), holding);
        let renews = !held.renewing && self.store.is_live();
        let watches = !held.watching;
        held.renewing |= renews;
        held.watching = true;
        drop(held);
        if renews {
            tokio::spawn(Arc::clone(self).renew());
        }
        if watches {
            tokio::spawn(Arc::clone(self).watch());
        }
    }

    /// Stops renewing a lease. Returns the moment at which it expires.
    fn untrack(&self, lease: &Lease) -> Moment {
        let mut held = self.held();
        let mut ends = lease.asked.plus(self.length);
        if let Some(members) = held.keys.get_mut(&lease.key) {
            if let Some(holding) = members.remove(&lease.member) {
                ends = holding.ends;
            }
            if members.is_empty() {
                held.keys.remove(&lease.key);
            }
        }
        ends
    }
}

impl Lease {
    /// Marks the lease as granted. It is renewed from now on.
    pub(crate) fn granted(mut self, fence: u64) -> Self {
        let ends = self.asked.plus(self.leases.length);
        let state = LeaseState::until(fence, self.leases.clock.clone(), ends);
        self.leases.track(&self, &state);
        self.state = Some(state);
        self
    }

    /// Marks the lease as granted with a smaller cost. The cost is part of its name in the store.
    pub(crate) fn granted_for(mut self, cost: u64, fence: u64) -> Self {
        if let Some((id, _)) = self.member.rsplit_once(':') {
            self.member = format!("{id}:{cost}");
        }
        self.cost = cost;
        self.granted(fence)
    }

    /// The state of the lease; `None` if it was never granted.
    pub(crate) fn state(&self) -> Option<&LeaseState> {
        self.state.as_ref()
    }

    /// Drops the lease without releasing it: it was refused, or is left to expire.
    pub(crate) fn abandon(mut self) {
        self.leases.untrack(&self);
        self.runtime = None;
    }

    /// Releases the lease. Returns whether it was still stored.
    pub(crate) async fn release(mut self) -> Result<bool, StoreError> {
        self.runtime = None;
        let returned = self.returned();
        Arc::clone(&self.leases).release(returned).await
    }

    /// Converts the lease to a pending release.
    fn returned(&mut self) -> Return {
        let until = self.leases.untrack(self);
        Return {
            key: std::mem::take(&mut self.key),
            member: std::mem::take(&mut self.member),
            cost: self.cost,
            until,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let returned = self.returned();
            let leases = Arc::clone(&self.leases);
            // An error was counted and is retried.
            runtime.spawn(async move { leases.release(returned).await.is_ok() });
        }
    }
}

/// Hides the keys, which may be secrets.
impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Hides the key, which may be a secret.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("cost", &self.cost)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
