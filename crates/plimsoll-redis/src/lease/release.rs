//! Releases leases, and retries failed releases.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::Moment;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Leases;
use crate::answer::Answer;
use crate::script::RELEASE;
use crate::{StoreError, StoreErrorKind};

/// A lease that has to be released.
pub(super) struct Return {
    pub(super) key: Vec<u8>,
    pub(super) member: String,
    pub(super) cost: u64,
    /// The moment at which it expires, on the clock of this process.
    pub(super) until: Moment,
}

/// The releases that are pending.
#[derive(Default)]
pub(super) struct Returns {
    waiting: Vec<Return>,
    retrying: bool,
    /// Queued releases of keys with a round trip in flight.
    collected: HashMap<Vec<u8>, Vec<Collected>>,
}

/// A release, and the channel for its result: whether the lease was still stored.
type Collected = (Return, oneshot::Sender<Result<bool, StoreError>>);

/// The mean pause between two retries.
const PAUSE: Duration = Duration::from_millis(40);

/// Maximum number of releases in one script.
const BATCH: usize = 256;

impl Leases {
    /// The number of releases that wait for a retry.
    pub(crate) fn unreturned(&self) -> usize {
        self.returns().waiting.len()
    }

    fn returns(&self) -> MutexGuard<'_, Returns> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases a lease, and retries later if the store does not answer. Releases of one key that are requested during a round trip for
    /// it are sent together with the next one.
    pub(super) async fn release(self: Arc<Self>, lease: Return) -> Result<bool, StoreError> {
        let stopped = |_| Err(StoreError::new(StoreErrorKind::Unreachable));
        self.collect(lease).await.unwrap_or_else(stopped)
    }

    fn collect(self: &Arc<Self>, lease: Return) -> oneshot::Receiver<Result<bool, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let key = lease.key.clone();
        let mut returns = self.returns();
        let under_way = returns.collected.get_mut(&key);
        if let Some(collected) = under_way {
            collected.push((lease, reply));
            return answer;
        }
        let first = vec![(lease, reply)];
        returns.collected.insert(key.clone(), first);
        drop(returns);
        let (leases, ended) = (Arc::clone(self), false);
        tokio::spawn(Returning { leases, key, ended }.run());
        answer
    }

    /// Sends releases of one key. Returns for each whether the lease was still stored.
    async fn give_back(
        &self,
        key: &[u8],
        leases: impl Iterator<Item = &Return>,
    ) -> Result<Vec<bool>, StoreError> {
        let pairs = leases.flat_map(|lease| [lease.member.clone(), lease.cost.to_string()]);
        let pairs: Vec<_> = pairs.collect();
        let answer = self.store.run(&RELEASE, &[key.to_vec()], &pairs).await?;
        let mut answer = Answer::new(answer)?;
        let each = (0..pairs.len() / 2).map(|_| Ok(answer.number::<u8>()? == 1));
        each.collect()
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

    /// The releases whose leases have not expired, by key. `None` if there are none: then the retry task ends.
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

    /// Retries the releases of one key. Returns those that failed again.
    async fn give_back_all(self: Arc<Self>, key: Vec<u8>, mut leases: Vec<Return>) -> Vec<Return> {
        while !leases.is_empty() {
            let batch = &leases[leases.len().saturating_sub(BATCH)..];
            match self.give_back(&key, batch.iter()).await {
                Err(error) if is_passing(&error) => break,
                // A permanent error: the leases are left to expire.
                _ => leases.truncate(leases.len().saturating_sub(BATCH)),
            }
        }
        leases
    }
}

/// The task that releases the leases of one key.
struct Returning {
    leases: Arc<Leases>,
    key: Vec<u8>,
    /// Whether the task has ended, so that another one may have started.
    ended: bool,
}

impl Returning {
    async fn run(mut self) {
        while let Some(batch) = self.next() {
            let (returned, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let leases = &self.leases;
            let answers = match leases.give_back(&self.key, returned.iter()).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(error) => {
                    let count = u64::try_from(returned.len()).unwrap_or(u64::MAX);
                    leases.failures.fetch_add(count, Ordering::Relaxed);
                    let answers = vec![Err(error.clone()); returned.len()];
                    if is_passing(&error) {
                        leases.try_again(returned);
                    }
                    answers
                }
            };
            for (reply, answer) in replies.into_iter().zip(answers) {
                // The caller has often dropped its future.
                let _ = reply.send(answer);
            }
        }
    }

    /// The queued releases, up to the number that one script sends.
    fn next(&mut self) -> Option<Vec<Collected>> {
        let mut returns = self.leases.returns();
        let collected = returns.collected.get_mut(&self.key)?;
        let count = collected.len().min(BATCH);
        if count == 0 {
            returns.collected.remove(&self.key);
            drop(returns);
            self.ended = true;
            return None;
        }
        Some(collected.drain(..count).collect())
    }
}

/// If the task is dropped with its runtime, its queue is passed to the next retry task.
impl Drop for Returning {
    fn drop(&mut self) {
        if !self.ended {
            let mut returns = self.leases.returns();
            let left = returns.collected.remove(&self.key).unwrap_or_default();
            let left = left.into_iter().map(|(lease, _)| lease);
            returns.waiting.extend(left);
        }
    }
}

/// Whether the error is transient, so that a retry may succeed.
fn is_passing(error: &StoreError) -> bool {
    use StoreErrorKind as Kind;

    !matches!(
        error.kind(),
        Kind::WrongType | Kind::BadReply | Kind::BadAddress | Kind::Unsupported
    )
}

/// The retry task. If it is dropped with its runtime, another one may start.
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

/// A random pause of 50% to 150% of [`PAUSE`], so that the processes of a fleet do not retry at the same moment.
fn pause() -> Duration {
    let draw = RandomState::new().hash_one(PAUSE) % 1000;
    PAUSE / 2 + PAUSE * u32::try_from(draw).unwrap_or(0) / 1000
}
