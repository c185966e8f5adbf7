//! One decision about many subjects: all or none.

mod answers;
mod groups;
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

/// What a decision asks of one limiter for one key. See [`Store::decide_all`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct StoreAsk<'a> {
    limiter: &'a RedisLimiter,
    key: &'a [u8],
    cost: u64,
    shadow: bool,
}

impl<'a> StoreAsk<'a> {
    /// Asks for `cost`. Cost 0 asks for the state: it is granted when anything is available, and takes nothing.
    pub fn new(limiter: &'a RedisLimiter, key: &'a (impl AsRef<[u8]> + ?Sized), cost: u64) -> Self {
        Self {
            limiter,
            key: key.as_ref(),
            cost,
            shadow: false,
        }
    }

    /// Never refuses the decision. It is evaluated and answered as the others are, and charged as if it were enforced: if the
    /// decision is admitted and it would have granted.
    pub const fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }
}

impl Store {
    /// Takes for all of `asks`, or for none: of different limiters, for different keys, at different costs, in one script
    /// and so in one round trip.
    ///
    /// ```no_run
    /// use plimsoll::{Concurrency, Quota, SlidingLog, TokenBucket};
    /// use plimsoll_redis::{Store, StoreAsk};
    ///
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::connect("redis://127.0.0.1")?;
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
    ///     Ok(permits) => drop(permits), // the job is returned
    ///     Err(denied) => println!("{denied}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Every ask is answered, also when another one refuses. A refused decision charges nothing; of limits that count
    /// refusals, the first that refuses counts its own. If a limiter is asked about one key several times the costs add up,
    /// and it is enforced unless all of these asks are shadows. An enforced ask for more than its limit can ever grant is refused
    /// without a round trip; then nothing is said about what remains of the others.
    ///
    /// # In a cluster
    ///
    /// A script must not use keys of several hash slots, and the keys of one subject are in one slot. So there is one script
    /// for each slot, sent one after the other in the order of the asks. If a later one refuses, what was taken by those
    /// before it is undone, as [`StorePermits::undo`] does, and the answer says so
    /// ([`is_compensated`](StoreDecision::is_compensated)). In between others may be refused because of it. More than 128
    /// subjects of one slot are several scripts, too.
    ///
    /// # Errors
    ///
    /// If the store cannot decide. Then nothing is charged, but after [`TimedOut`](StoreErrorKind::TimedOut) or
    /// [`Unreachable`](StoreErrorKind::Unreachable) rates may have been; leases are returned. A limiter of another store
    /// is [`Unsupported`](StoreErrorKind::Unsupported). A caller that drops the future is not charged.
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
                // Nobody is left to tell.
                let _ = permits.undo().await;
            }
        };
        UndoOnDrop::new(question, undo).await
    }

    /// What [`decide_all`](Self::decide_all) would answer. Takes nothing, and leaves no keys behind.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    pub async fn peek_all(&self, asks: &[StoreAsk<'_>]) -> Result<StoreAnswers, StoreError> {
        let (mut subjects, places) = self.subjects(asks)?;
        subjects.peek(|_, _| None).await?;
        Ok(StoreAnswers::of(&subjects, &places))
    }

    /// Takes for all of `asks` after the fact. Nobody is refused: see [`RedisLimiter::charge`].
    ///
    /// # Errors
    ///
    /// If the store cannot be changed; in a cluster, some of it may have been.
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

/// The answers where one that is enforced is asked for more than it can ever grant: then the store is not asked.
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
