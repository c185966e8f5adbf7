use std::sync::Arc;

use plimsoll::{Denied, InvalidLimit, Moment, Standing};

use crate::many::{Subject, Subjects};
use crate::{Decision, RedisLimiter, RedisPermit, Store, StoreError};

/// Several limiters that decide together: a demand takes from all of them or from none. [`Store::all`] creates one.
///
/// One script evaluates them in order. A refusal names the first limiter that refuses, charges none of the others, and carries the time at
/// which all would grant.
///
/// All limiters use the *same key* and the same cost, and all states of one key are on one node of a cluster. For different keys, such
/// as a customer and the whole service, use [`Store::decide_all`].
///
/// ```no_run
/// use plimsoll::{Quota, SlidingLog, TokenBucket};
/// use plimsoll_redis::Store;
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let burst = store.limiter("burst", TokenBucket::per_second(10))?;
/// let steady = store.limiter("steady", SlidingLog::new(Quota::per_minute(100)))?;
/// let both = store.all([burst, steady])?;
/// if let Err(denied) = both.decide("customer 42", 1).await?.into_result() {
///     println!("retry after {:?}", denied.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisAll {
    members: Arc<[RedisLimiter]>,
}

impl Store {
    /// Combines limiters of this store into one decision. See [`RedisAll`].
    ///
    /// # Errors
    ///
    /// Returns an error if the list is empty, contains a limiter twice, or contains a limiter of another store.
    pub fn all(
        &self,
        limiters: impl IntoIterator<Item = RedisLimiter>,
    ) -> Result<RedisAll, InvalidLimit> {
        RedisAll::new(self, limiters.into_iter().collect())
    }
}

impl RedisAll {
    fn new(store: &Store, members: Vec<RedisLimiter>) -> Result<Self, InvalidLimit> {
        if members.is_empty() {
            return Err(InvalidLimit::new("of", "empty", "at least 1 limiter"));
        }
        for (index, member) in members.iter().enumerate() {
            if !member.store().is(store) {
                let rule = "a limiter of the same store";
                return Err(InvalidLimit::new("of", member.name(), rule));
            }
            let same = |other: &RedisLimiter| other.key(b"") == member.key(b"");
            if members.iter().take(index).any(same) {
                return Err(InvalidLimit::new("of", member.name(), "each limiter once"));
            }
        }
        Ok(Self {
            members: members.into(),
        })
    }

    /// Takes `cost` for `key` from all limiters, or from none. See [`RedisLimiter::decide`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not decide.
    pub async fn decide(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision, StoreError> {
        let mut subjects = self.subjects(key.as_ref(), cost);
        subjects.decide(|_, _| None).await?;
        if let Some(denied) = refusal(&subjects) {
            return Ok(Decision::Denied(denied));
        }
        let standing = least(&subjects);
        let events: Vec<_> = subjects
            .each_mut()
            .filter_map(Subject::take_return_event)
            .collect();
        let subjects = subjects.into_each().into_iter();
        let leases = subjects.filter_map(|mut subject| subject.take_lease());
        let permit = RedisPermit::new(cost, standing, leases.collect());
        Ok(Decision::Granted(permit.return_events(events)))
    }

    /// Returns what [`decide`](Self::decide) would decide, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn estimate(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
    ) -> Result<Result<Standing, Denied>, StoreError> {
        let mut subjects = self.subjects(key.as_ref(), cost);
        subjects.peek(|_, _| None).await?;
        Ok(refusal(&subjects).map_or_else(|| Ok(least(&subjects)), Err))
    }

    /// Returns the limiters, in the order in which they are evaluated.
    #[must_use]
    pub fn members(&self) -> &[RedisLimiter] {
        &self.members
    }

    fn subjects(&self, key: &[u8], cost: u64) -> Subjects {
        let members = self.members.iter();
        Subjects::new(members.map(|member| (member, key, cost, false))).0
    }
}

/// The standing of the limit with the least remaining.
fn least(subjects: &Subjects) -> Standing {
    let standings = subjects.each().iter().filter_map(Subject::granted_standing);
    let least = standings.min_by_key(|standing| standing.remaining);
    least.unwrap_or_default()
}

/// The refusal of the first limiter that refuses, with the time at which all would grant.
fn refusal(subjects: &Subjects) -> Option<Denied> {
    let answers = subjects.each().iter().map(Subject::answer);
    let mut refusals = answers.filter_map(|answer| answer.denied);
    let first = refusals.next()?;
    let longest = refusals.fold(first.retry_after(), |longest, denied| {
        Some(longest?.max(denied.retry_after()?))
    });
    Some(first.with_ready_at(
        Moment::ORIGIN,
        longest.map(|span| Moment::ORIGIN.plus(span)),
    ))
}
