//! Returning leases, also those that could not be returned at first.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::Moment;
use redis::Value;
use tokio::task::JoinSet;

use super::Leases;
use crate::script::RELEASE;
use crate::{StoreError, StoreErrorKind};

/// A lease that is to be returned.
pub(super) struct Return {
    pub(super) key: Vec<u8>,
    pub(super) member: String,
    pub(super) cost: u64,
    /// When it ends by itself, by the clock of this process.
    pub(super) until: Moment,
}

/// What could not be returned so far.
#[derive(Default)]
pub(super) struct Returns {
    waiting: Vec<Return>,
    retrying: bool,
}

/// How long nothing is tried again, about.
const PAUSE: Duration = Duration::from_millis(40);

/// As many are returned by one script.
const BATCH: usize = 256;

impl Leases {
    /// How many wait to be returned.
    pub(crate) fn unreturned(&self) -> usize {
        self.returns().waiting.len()
    }

    fn returns(&self) -> MutexGuard<'_, Returns> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives one back; if the store cannot be changed now, also later.
    pub(super) async fn release(self: Arc<Self>, lease: Return) -> Result<bool, StoreError> {
        let pair = [lease.member.as_str(), &lease.cost.to_string()];
        match self.give_back(&lease.key, &pair).await {
            Ok(given_back) => Ok(given_back > 0),
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if is_passing(&error) {
                    self.try_again([lease]);
                }
                Err(error)
            }
        }
    }

    async fn give_back(&self, key: &[u8], pairs: &[&str]) -> Result<u64, StoreError> {
        match self.store.run(&RELEASE, &[key.to_vec()], pairs).await? {
            Value::Int(given_back) => Ok(u64::try_from(given_back).unwrap_or(0)),
            other => Err(StoreError::bad_reply(&other)),
        }
    }

    fn try_again(self: &Arc<Self>, leases: impl IntoIterator<Item = Return>) {
        let mut returns = self.returns();
        returns.waiting.extend(leases);
        if !returns.waiting.is_empty() && !returns.retrying {
            returns.retrying = true;
            drop(returns);
            tokio::spawn(Retrying(Arc::clone(self)).run());
        }
    }

    /// All that still makes a difference, by key. `None` if there is nothing: then somebody else must start again.
    fn due(&self) -> Option<HashMap<Vec<u8>, Vec<Return>>> {
        let now = self.clock.precise_now();
        let mut returns = self.returns();
        returns.waiting.retain(|lease| now < lease.until);
        returns.retrying = !returns.waiting.is_empty();
        returns.retrying.then(|| {
            let mut due = HashMap::<_, Vec<_>>::new();
            for lease in returns.waiting.drain(..) {
                due.entry(lease.key.clone()).or_default().push(lease);
            }
            due
        })
    }

    /// What of one key could still not be returned.
    async fn give_back_all(self: Arc<Self>, key: Vec<u8>, mut leases: Vec<Return>) -> Vec<Return> {
        while !leases.is_empty() {
            let batch = &leases[leases.len().saturating_sub(BATCH)..];
            let costs: Vec<_> = batch.iter().map(|lease| lease.cost.to_string()).collect();
            let members = batch.iter().map(|lease| lease.member.as_str());
            let pairs: Vec<_> = members
                .zip(&costs)
                .flat_map(|(member, cost)| [member, cost])
                .collect();
            match self.give_back(&key, &pairs).await {
                Err(error) if is_passing(&error) => break,
                // What cannot ever be returned runs out.
                _ => leases.truncate(leases.len().saturating_sub(BATCH)),
            }
        }
        leases
    }
}

/// Whether another attempt may do better.
fn is_passing(error: &StoreError) -> bool {
    use StoreErrorKind as Kind;

    !matches!(
        error.kind(),
        Kind::WrongType | Kind::BadReply | Kind::BadAddress | Kind::Unsupported
    )
}

/// The task that tries again. If it ends with its runtime, it leaves room for another.
struct Retrying(Arc<Leases>);

impl Retrying {
    async fn run(self) {
        loop {
            tokio::time::sleep(pause()).await;
            let Some(due) = self.0.due() else {
                return;
            };
            let mut keys = JoinSet::new();
            for (key, leases) in due {
                keys.spawn(Arc::clone(&self.0).give_back_all(key, leases));
            }
            while let Some(left) = keys.join_next().await {
                let mut returns = self.0.returns();
                returns.waiting.extend(left.unwrap_or_default());
            }
        }
    }
}

impl Drop for Retrying {
    fn drop(&mut self) {
        self.0.returns().retrying = false;
    }
}

/// Between a half and one and a half of it, so that the processes of a fleet do not all come together.
fn pause() -> Duration {
    let draw = RandomState::new().hash_one(PAUSE) % 1000;
    PAUSE / 2 + PAUSE * u32::try_from(draw).unwrap_or(0) / 1000
}
