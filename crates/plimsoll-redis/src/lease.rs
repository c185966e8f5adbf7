//! Permits that come back even if their holder does not.
//!
//! A lease is an id that nobody else has, kept in Redis with the moment at which it runs out. As long as the permit is
//! held its lease is renewed, three times in its length, by one task for all leases of a limiter. A holder
//! that crashes renews nothing. A lease that has run out cannot give anything back: its id is not there any more.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::runtime::Handle;

use crate::answer::Answer;
use crate::rule::number;
use crate::script::{RELEASE, RENEW};
use crate::{Store, StoreError};

/// The leases of one limiter that this process holds.
#[derive(Debug)]
pub(crate) struct Leases {
    store: Store,
    length: Duration,
    held: Mutex<Held>,
    failures: AtomicU64,
}

/// By key and by the member that stands for the lease in the set: its id and its cost.
#[derive(Debug, Default)]
struct Held {
    keys: HashMap<Vec<u8>, HashMap<String, Arc<AtomicBool>>>,
    renewing: bool,
}

/// A lease that is held.
#[derive(Debug)]
pub(crate) struct Lease {
    leases: Arc<Leases>,
    key: Vec<u8>,
    member: String,
    cost: u32,
    lost: Arc<AtomicBool>,
    /// Where to give it back if it is dropped.
    runtime: Option<Handle>,
}

/// What nobody else begins an id with: two random numbers of 64 bits, drawn when the process first needs one.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    let draw = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", draw(), draw())
});

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An id that no other lease has, of any process. It ends with the length of the lease in microseconds, by which scripts
/// find leases that were written by a clock that has stepped back since.
fn new_id(length: Duration) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let micros = length.as_nanos().div_ceil(1000);
    format!("{}-{number}~{micros}", *PROCESS)
}

impl Leases {
    pub(crate) fn new(store: Store, length: Duration) -> Arc<Self> {
        Arc::new(Self {
            store,
            length,
            held: Mutex::default(),
            failures: AtomicU64::new(0),
        })
    }

    pub(crate) fn new_id(&self) -> String {
        new_id(self.length)
    }

    /// A lease that is asked for. It is given back if it is dropped, so that an answer that comes too late
    /// or that nobody waits for any more does not hold anything: giving back what was never granted does nothing.
    pub(crate) fn ask(self: &Arc<Self>, key: Vec<u8>, id: &str, cost: u32) -> Lease {
        Lease {
            leases: Arc::clone(self),
            key,
            member: format!("{id}:{cost}"),
            cost,
            lost: Arc::default(),
            runtime: Handle::try_current().ok(),
        }
    }

    /// How often a lease could not be renewed or given back.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews a lease from now on.
    fn keep(self: &Arc<Self>, lease: &Lease) {
        let mut held = self.held();
        let members = held.keys.entry(lease.key.clone()).or_default();
        members.insert(lease.member.clone(), Arc::clone(&lease.lost));
        if !held.renewing && self.store.is_live() {
            held.renewing = true;
            drop(held);
            tokio::spawn(Arc::clone(self).renew());
        }
    }

    /// Does not renew it any more.
    fn let_go(&self, lease: &Lease) {
        let mut held = self.held();
        if let Some(members) = held.keys.get_mut(&lease.key) {
            members.remove(&lease.member);
            if members.is_empty() {
                held.keys.remove(&lease.key);
            }
        }
    }

    /// Renews all leases until none is held.
    async fn renew(self: Arc<Self>) {
        let mut renewing = Renewing(Some(&self));
        loop {
            tokio::time::sleep(self.length / 3).await;
            let Some(batches) = self.batches() else {
                renewing.0 = None;
                return;
            };
            // Together, so that they travel together.
            let renewed: Vec<_> = batches
                .into_iter()
                .map(|(key, members)| tokio::spawn(Arc::clone(&self).renew_key(key, members)))
                .collect();
            for batch in renewed {
                let _ = batch.await;
            }
        }
    }

    /// What is held, by key; `None` if nothing is, and then somebody else must start renewing again.
    fn batches(&self) -> Option<Vec<(Vec<u8>, Vec<String>)>> {
        let mut held = self.held();
        held.renewing = !held.keys.is_empty();
        held.renewing.then(|| {
            let batch = |(key, members): (&Vec<u8>, &HashMap<String, _>)| {
                (key.clone(), members.keys().cloned().collect())
            };
            held.keys.iter().map(batch).collect()
        })
    }

    async fn renew_key(self: Arc<Self>, key: Vec<u8>, members: Vec<String>) {
        match self.try_renew(&key, &members).await {
            Ok(lost) => {
                let mut held = self.held();
                if let Some(known) = held.keys.get_mut(&key) {
                    for member in lost {
                        if let Some(lost) = known.remove(&member) {
                            lost.store(true, Ordering::Relaxed);
                        }
                    }
                    if known.is_empty() {
                        held.keys.remove(&key);
                    }
                }
            }
            Err(_) => drop(self.failures.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Which of them are gone.
    async fn try_renew(&self, key: &[u8], members: &[String]) -> Result<Vec<String>, StoreError> {
        let length = number(self.length.as_nanos());
        let mut arguments = vec![String::new(), self.store.now(), length];
        arguments.extend_from_slice(members);
        let answer = self.store.run(&RENEW, &[key.to_vec()], &arguments).await?;
        let mut answer = Answer::new(answer)?;
        let mut lost = Vec::new();
        for member in members {
            if answer.number::<u8>()? == 0 {
                lost.push(member.clone());
            }
        }
        Ok(lost)
    }

    async fn release(&self, key: &[u8], member: String, cost: u32) -> Result<bool, StoreError> {
        let arguments = [member, cost.to_string()];
        match self.store.run(&RELEASE, &[key.to_vec()], &arguments).await {
            Ok(Value::Int(given_back)) => Ok(given_back == 1),
            Ok(other) => Err(StoreError::bad_reply(&other)),
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

/// Lets somebody else renew if the task ends otherwise than by itself: with its runtime.
struct Renewing<'a>(Option<&'a Leases>);

impl Drop for Renewing<'_> {
    fn drop(&mut self) {
        if let Some(leases) = self.0 {
            leases.held().renewing = false;
        }
    }
}

impl Lease {
    /// It was granted: it is renewed from now on.
    pub(crate) fn granted(self) -> Self {
        self.leases.keep(&self);
        self
    }

    /// It was granted for less than was asked, which is part of what it is known by.
    pub(crate) fn granted_for(mut self, cost: u32) -> Self {
        if let Some((id, _)) = self.member.rsplit_once(':') {
            self.member = format!("{id}:{cost}");
        }
        self.cost = cost;
        self.granted()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// It was refused, or is to run out by itself.
    pub(crate) fn abandon(mut self) {
        self.leases.let_go(&self);
        self.runtime = None;
    }

    /// Gives it back, and says whether it was still there.
    pub(crate) async fn release(mut self) -> Result<bool, StoreError> {
        self.runtime = None;
        self.leases.let_go(&self);
        let member = std::mem::take(&mut self.member);
        self.leases.release(&self.key, member, self.cost).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        self.leases.let_go(self);
        let leases = Arc::clone(&self.leases);
        let (key, member) = (
            std::mem::take(&mut self.key),
            std::mem::take(&mut self.member),
        );
        let cost = self.cost;
        // An error is counted where it happens, and the lease runs out.
        runtime.spawn(async move { leases.release(&key, member, cost).await.is_ok() });
    }
}
