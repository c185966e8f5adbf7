//! Permits that come back even if their holder does not.
//!
//! A lease is an id that nobody else has, kept in Redis with the moment at which it runs out. As long as the permit is
//! held its lease is renewed, three times in its length, by one task for all leases of a limiter. A holder
//! that crashes renews nothing. A lease that has run out cannot give anything back: its id is not there any more.
//!
//! A lease that could not be renewed is lost when its length has passed here since it was last asked for: the server counts
//! from later, so nobody else has it before. A lease that could not be returned is tried again until it would have
//! run out by itself.

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
    held: Mutex<Held>,
    returns: Mutex<Returns>,
    failures: AtomicU64,
}

/// By key and by the member that stands for the lease in the set: its id and its cost.
#[derive(Default)]
struct Held {
    keys: HashMap<Vec<u8>, HashMap<String, Holding>>,
    renewing: bool,
    watching: bool,
}

struct Holding {
    state: LeaseState,
    /// When it is lost, by the clock of this process, unless it is renewed.
    ends: Moment,
}

/// A lease that is asked for, and later held.
pub(crate) struct Lease {
    leases: Arc<Leases>,
    key: Vec<u8>,
    member: String,
    cost: u64,
    asked: Moment,
    /// `None` until it is granted.
    state: Option<LeaseState>,
    /// Where to give it back if it is dropped.
    runtime: Option<Handle>,
}

/// What nobody else begins an id with: two random numbers of 64 bits, drawn when the process first needs one.
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

    /// An id that no other lease has, of any process. It ends with the length of the lease in microseconds, by which
    /// scripts find leases that were written by a clock that has stepped back since.
    pub(crate) fn new_id(&self) -> String {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let micros = self.length.as_nanos().div_ceil(1000);
        format!("{}-{number}~{micros}", *PROCESS)
    }

    /// A lease that is asked for. It is returned if it is dropped, so that an answer that comes too late
    /// or that nobody waits for any more does not hold anything: giving back what was never granted does nothing.
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

    /// How often a lease could not be renewed, or not be returned at first.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews a lease from now on, and knows when it is lost.
    fn keep(self: &Arc<Self>, lease: &Lease, state: &LeaseState) {
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

    /// Does not renew it any more; says when it ends by itself.
    fn let_go(&self, lease: &Lease) -> Moment {
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
    /// It was granted: it is renewed from now on.
    pub(crate) fn granted(mut self, fence: u64) -> Self {
        let ends = self.asked.plus(self.leases.length);
        let state = LeaseState::until(fence, self.leases.clock.clone(), ends);
        self.leases.keep(&self, &state);
        self.state = Some(state);
        self
    }

    /// It was granted for less than was asked, which is part of what it is known by.
    pub(crate) fn granted_for(mut self, cost: u64, fence: u64) -> Self {
        if let Some((id, _)) = self.member.rsplit_once(':') {
            self.member = format!("{id}:{cost}");
        }
        self.cost = cost;
        self.granted(fence)
    }

    /// Whether it still holds; `None` if it was never granted.
    pub(crate) fn state(&self) -> Option<&LeaseState> {
        self.state.as_ref()
    }

    /// It was refused, or is to run out by itself.
    pub(crate) fn abandon(mut self) {
        self.leases.let_go(&self);
        self.runtime = None;
    }

    /// Gives it back, and says whether it was still there.
    pub(crate) async fn release(mut self) -> Result<bool, StoreError> {
        self.runtime = None;
        let returned = self.returned();
        Arc::clone(&self.leases).release(returned).await
    }

    /// What is to be returned; this one holds nothing any more.
    fn returned(&mut self) -> Return {
        let until = self.leases.let_go(self);
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
            // An error is counted where it happens, and tried again.
            runtime.spawn(async move { leases.release(returned).await.is_ok() });
        }
    }
}

/// Without keys: they may be secrets.
impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Without its key, which may be a secret.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("cost", &self.cost)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
