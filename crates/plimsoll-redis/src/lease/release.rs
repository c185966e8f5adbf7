//! Returning leases, also those that could not be returned at first.

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
    /// What is to be given back next, of keys for which a round trip is under way.
    collected: HashMap<Vec<u8>, Vec<Collected>>,
}

/// A lease, and where to say whether it was still there.
type Collected = (Return, oneshot::Sender<Result<bool, StoreError>>);

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

    /// Gives one back; if the store cannot be changed now, also later. Those of one key that come while a round trip for it
    /// is under way are given back together by the next one.
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

    /// Says of each whether it was still there.
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
            match self.give_back(&key, batch.iter()).await {
                Err(error) if is_passing(&error) => break,
                // What cannot ever be returned runs out.
                _ => leases.truncate(leases.len().saturating_sub(BATCH)),
            }
        }
        leases
    }
}

/// The task that gives back leases of one key.
struct Returning {
    leases: Arc<Leases>,
    key: Vec<u8>,
    /// Whether nothing is left to do, so that another may have begun.
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
                // Mostly nobody waits for it.
                let _ = reply.send(answer);
            }
        }
    }

    /// What has come meanwhile, as much as one script gives back.
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

/// If it was stopped with its runtime, what it has not begun with is tried again by whoever tries again next.
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
