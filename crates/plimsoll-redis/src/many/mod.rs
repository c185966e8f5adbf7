//! One decision about several limits and keys: all or none.

mod answers;
mod group_batches;
mod permits;
mod subject;
mod subjects;

use plimsoll::{Denied, Reason};

use crate::undo::UndoOnDrop;
use crate::{RedisLimiter, Store, StoreError, StoreErrorKind};

pub use answers::{StoreAnswer, StoreAnswers, StoreDecision};
pub use permits::StorePermits;
pub(crate) use subject::Subject;
pub(crate) use subjects::{Outcome, Subjects};

/// One ask of a decision: a limiter, a key and a cost. See [`Store::decide_all`].
///
/// ```
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Store, StoreAsk};
///
/// let store = Store::open("redis://127.0.0.1")?;
/// let user = store.limiter("user", TokenBucket::per_second(10))?;
/// // A new limit on trial: its refusals are reported, and refuse nothing.
/// let trial = store.limiter("trial", TokenBucket::per_second(5))?;
/// let asks = [StoreAsk::new(&user, "user 7", 1), StoreAsk::new(&trial, "user 7", 1).shadow()];
/// # let _ = asks;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct StoreAsk<'a> {
    limiter: &'a RedisLimiter,
    key: &'a [u8],
    cost: u64,
    shadow: bool,
}

impl<'a> StoreAsk<'a> {
    /// Creates an ask for `cost`. A cost of 0 takes nothing, and is granted if anything is available.
    pub fn new(limiter: &'a RedisLimiter, key: &'a (impl AsRef<[u8]> + ?Sized), cost: u64) -> Self {
        Self {
            limiter,
            key: key.as_ref(),
            cost,
            shadow: false,
        }
    }

    /// Puts the ask into shadow mode: it is evaluated and answered, but does not refuse the decision. It is charged if the decision is
    /// admitted and the limit grants.
    pub const fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }
}

impl Store {
    /// Takes all of `asks` or none: from different limiters, for different keys and costs, with one script in one round trip.
    ///
    /// ```no_run
    /// use plimsoll::{Concurrency, Quota, SlidingLog, TokenBucket};
    /// use plimsoll_redis::{Store, StoreAsk};
    ///
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let user = store.limiter("user", TokenBucket::per_second(10))?;
    /// let tenant = store.limiter("tenant", SlidingLog::new(Quota::per_day(100_000)))?;
    /// let jobs = store.limiter("jobs", Concurrency::new(5))?;
    /// let asks = [
    ///     StoreAsk::new(&user, "user 7", 1),
    ///     StoreAsk::new(&tenant, "tenant 42", 250),
    ///     StoreAsk::new(&jobs, "tenant 42", 1),
    /// ];
    /// let decision = store.decide_all(&asks).await?;
    /// for answer in decision.answers().iter() {
    ///     println!("{:?} of {} left", answer.standing.remaining, answer.standing.limit);
    /// }
    /// match decision.into_result() {
    ///     Ok(permits) => drop(permits), // releases the job
    ///     Err(denied) => println!("{denied}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Every ask is answered, even if another one refuses. A refused decision charges nothing, except that the first
    /// limit that refuses counts the refusal if its rule counts refusals. If several asks have the same limiter and
    /// key, their costs are added, and they are enforced unless all of them are in shadow mode. If an enforced ask
    /// exceeds the most that its limit can ever grant, the decision is refused without a round trip, and the other
    /// answers do not report a remainder.
    ///
    /// # In a cluster
    ///
    /// A script may only use keys of one hash slot, so a decision sends one script for each slot, one at a time in the
    /// order of the asks. If a later script refuses, the grants of the earlier ones are undone, as by
    /// [`StorePermits::undo`], and [`is_compensated`](StoreDecision::is_compensated) returns `true`. Meanwhile other
    /// decisions may be refused because of them. More than 128 asks in one slot also need several scripts.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not decide. Nothing is then charged, except that rates may have been charged
    /// after [`TimedOut`](StoreErrorKind::TimedOut) or [`Unreachable`](StoreErrorKind::Unreachable); leases are
    /// released. A limiter of another store is [`Unsupported`](StoreErrorKind::Unsupported). If the caller drops the
    /// future, grants are undone.
    pub async fn decide_all(&self, asks: &[StoreAsk<'_>]) -> Result<StoreDecision, StoreError> {
        let (mut subjects, places) = self.subjects(asks)?;
        if let Some(refused) = too_large(&subjects, &places) {
            return Ok(StoreDecision::refused(refused, false));
        }
        let question = async move {
            let outcome = subjects.decide(|_, _| None).await?;
            let answers = StoreAnswers::of(&subjects, &places);
            Ok(match outcome {
                Outcome::Admitted => StoreDecision::admitted(answers, StorePermits::new(subjects)),
                Outcome::Refused { compensated } => StoreDecision::refused(answers, compensated),
            })
        };
        let undo = |answer: Result<StoreDecision, StoreError>| async {
            if let Ok(Ok(permits)) = answer.map(StoreDecision::into_result) {
                // No caller is left to report an error to.
                let _ = permits.undo().await;
            }
        };
        UndoOnDrop::new(question, undo).await
    }

    /// Returns what [`decide_all`](Self::decide_all) would answer. Takes nothing and writes no keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn peek_all(&self, asks: &[StoreAsk<'_>]) -> Result<StoreAnswers, StoreError> {
        let (mut subjects, places) = self.subjects(asks)?;
        subjects.peek(|_, _| None).await?;
        Ok(StoreAnswers::of(&subjects, &places))
    }

    /// Charges all of `asks` after the fact. A charge is never refused: see [`RedisLimiter::charge`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer. In a cluster, some asks may have been charged.
    pub async fn charge_all(&self, asks: &[StoreAsk<'_>]) -> Result<(), StoreError> {
        let charged = |ask: &&StoreAsk<'_>| ask.cost > 0 && !ask.limiter.holds_leases();
        let asks: Vec<_> = asks.iter().filter(charged).copied().collect();
        let (mut subjects, _) = self.subjects(&asks)?;
        subjects.charge().await
    }

    fn subjects(&self, asks: &[StoreAsk<'_>]) -> Result<(Subjects, Vec<usize>), StoreError> {
        if asks.iter().any(|ask| !ask.limiter.store().is(self)) {
            return Err(StoreError::new(StoreErrorKind::Unsupported));
        }
        let asks = asks.iter();
        Ok(Subjects::new(
            asks.map(|ask| (ask.limiter, ask.key, ask.cost, ask.shadow)),
        ))
    }
}

/// The answers if an enforced ask exceeds what its limit can ever grant: then the store is not called.
pub(crate) fn too_large(subjects: &Subjects, places: &[usize]) -> Option<StoreAnswers> {
    let each = subjects.each();
    let refuses = |place: usize| !each[place].is_shadow() && each[place].is_too_large();
    places.iter().any(|&place| refuses(place)).then(|| {
        let answer = |&place: &usize| {
            let mut answer = each[place].answer();
            if each[place].is_too_large() {
                let denied = Denied::new(Reason::TooLarge).with_limit(each[place].limit(), 0);
                answer.denied = Some(denied.with_limiter(each[place].limiter().name()));
            }
            answer
        };
        places.iter().map(answer).collect()
    })
}
