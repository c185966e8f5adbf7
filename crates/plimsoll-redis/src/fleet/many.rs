//! One decision about keys of several fleets: all or none.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use plimsoll::together::Permits;
use plimsoll::{Demand, Permit, Reason};
use tokio::runtime::Handle;

use super::FleetKey;
use super::entry::Entry;
use crate::many::{Outcome, Subject, Subjects};
use crate::undo::UndoOnDrop;
use crate::{StoreAnswers, StoreDecision, StoreError};

/// One ask of a decision about several fleets: a key of a [`Fleet`](crate::Fleet) and a cost. See
/// [`decide_all`](Self::decide_all).
///
/// It is the counterpart of [`StoreAsk`](crate::StoreAsk) for limits with borrowing and outage settings; the fleets may have
/// different stores.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct FleetAsk<'a> {
    key: &'a FleetKey,
    cost: u64,
    shadow: bool,
}

type FleetDecision = StoreDecision<Permits<'static>>;

impl<'a> FleetAsk<'a> {
    /// Creates an ask for `cost`. A cost of 0 takes nothing, and is granted if anything is available.
    pub const fn new(key: &'a FleetKey, cost: u64) -> Self {
        Self {
            key,
            cost,
            shadow: false,
        }
    }

    /// Puts the ask into shadow mode. See [`StoreAsk::shadow`](crate::StoreAsk::shadow).
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::{FleetAsk, Store};
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let trial = store.limiter("trial", TokenBucket::per_second(5))?.fleet().build()?;
    /// let user = trial.key("user 7");
    /// let ask = FleetAsk::new(&user, 1).shadow();
    /// # let _ = ask;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// Takes all of `asks` or none, with the priority and the deadline of `like`. A refusal is final: there is no waiting.
    ///
    /// ```no_run
    /// use plimsoll::{Demand, TokenBucket};
    /// use plimsoll_redis::{FleetAsk, Outage, Store};
    /// use std::time::Duration;
    ///
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let users = store.limiter("users", TokenBucket::per_second(10))?.fleet().build()?;
    /// let all = store.limiter("all", TokenBucket::per_second(9000))?;
    /// let all = all.fleet().outage(Outage::Admit).build()?;
    /// let (user, everybody) = (users.key("user 7"), all.key("everybody"));
    /// let asks = [FleetAsk::new(&user, 1), FleetAsk::new(&everybody, 1)];
    /// let like = Demand::ONE.within(Duration::from_millis(20));
    /// let permits = FleetAsk::decide_all(&asks, like).await.into_result()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Borrowed permits are used first, without a round trip. A remembered refusal refuses the decision without a round trip, and the
    /// other answers do not report what remains. The remaining asks need one script for each store, and in a cluster for each hash slot,
    /// with the rules of [`Store::decide_all`](crate::Store::decide_all) for equal keys and for refusals of later scripts. A script
    /// also fetches the next batches of limits with borrowing.
    ///
    /// If a store does not decide, the [`Outage`](crate::Outage) setting of each limit does, and the answer carries the
    /// [cause](crate::StoreAnswer#structfield.cause). If the deadline passes before all stores have answered, the
    /// decision is refused with the reason [`TimedOut`](Reason::TimedOut), and grants are undone in the background.
    /// They are also undone if the future is dropped.
    pub async fn decide_all(asks: &[Self], like: Demand) -> FleetDecision {
        let mut many = Many::new(asks, like);
        if many.decide_here() {
            return many.end(Outcome::Admitted);
        }
        let Some(first) = many.entries.first().map(|entry| Arc::clone(&entry.inner)) else {
            return many.end(Outcome::Admitted);
        };
        if many.entries.iter().any(Entry::refuses) {
            return many.end(Outcome::Refused { compensated: false });
        }
        let now = first.clock.now();
        let deadline = like.deadline(now).filter(|_| !like.is_at_once());
        if deadline.is_some_and(|deadline| deadline < now) {
            return many.refuse(Reason::TimedOut);
        }
        // Calls to a store need tokio, and the caller may be a plain thread.
        let Some(runtime) = first.background().handle() else {
            return many.refuse(Reason::Unavailable);
        };
        let is_here = Handle::try_current().is_ok();
        // The answers if the deadline passes.
        let late = deadline.map(|_| many.given_up(Reason::TimedOut));
        let lost = (!is_here).then(|| many.given_up(Reason::Unavailable));
        let asked = many.ask();
        let question: Question = if is_here {
            Box::pin(async { Some(asked.await) })
        } else {
            let asked = runtime.spawn(asked);
            Box::pin(async { asked.await.ok() })
        };
        let undo = |decision: Option<FleetDecision>| async {
            if let Some(Ok(permits)) = decision.map(StoreDecision::into_result) {
                permits.undo();
            }
        };
        let mut question = UndoOnDrop::boxed(question, undo).on(runtime);
        let mut time = deadline.map(|deadline| Box::pin(first.clock.sleep_until(deadline)));
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = Pin::new(&mut question).poll(cx) {
                return Poll::Ready(answer.ok_or(lost.as_ref()));
            }
            let time = time.as_mut();
            match time.map(|time| time.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(late.as_ref())),
                _ => Poll::Pending,
            }
        });
        let refused = |answers: Option<&StoreAnswers>| {
            StoreDecision::refused(answers.cloned().unwrap_or_default(), false)
        };
        answer.await.unwrap_or_else(refused)
    }

    /// Returns what [`decide_all`](Self::decide_all) would answer. Takes nothing.
    ///
    /// ```no_run
    /// use plimsoll_redis::{FleetAsk, FleetKey};
    ///
    /// async fn remaining(user: &FleetKey) -> Option<u64> {
    ///     FleetAsk::peek_all(&[FleetAsk::new(user, 1)]).await[0].standing.remaining
    /// }
    /// ```
    pub async fn peek_all(asks: &[Self]) -> StoreAnswers {
        let mut many = Many::new(asks, Demand::ONE);
        many.entries.iter_mut().for_each(Entry::peek_here);
        let (rest, mut subjects) = many.rest();
        let entries = &mut many.entries;
        let undecided = |part: &[usize], error: &StoreError| {
            let failed = part.iter().map(|&index| rest[index]);
            failed.for_each(|index| entries[index].peek_without_store(error.kind()));
            Some(true)
        };
        // `undecided` answers if a store does not.
        let _ = subjects.peek(undecided).await;
        for (&index, subject) in rest.iter().zip(subjects.each()) {
            many.entries[index].answer.get_or_insert(subject.answer());
        }
        many.answers()
    }
}

type Question = Pin<Box<dyn Future<Output = Option<FleetDecision>> + Send>>;

/// A decision, from its asks to its answers.
struct Many {
    entries: Vec<Entry>,
    /// The entry of each ask.
    places: Vec<usize>,
    like: Demand,
}

impl Many {
    fn new(asks: &[FleetAsk<'_>], like: Demand) -> Self {
        let mut entries = Vec::<Entry>::with_capacity(asks.len());
        let place = |ask: &FleetAsk<'_>| {
            let inner = ask.key.shared.now();
            let stored = inner.limiter().key(&ask.key.key);
            let same = |entry: &Entry| {
                let store = entry.inner.limiter().store();
                entry.stored == stored && store.is(inner.limiter().store())
            };
            if let Some(place) = entries.iter().position(same) {
                entries[place].add(ask.cost, ask.shadow);
                return place;
            }
            entries.push(Entry::new(ask.key, inner, stored, ask.cost, ask.shadow));
            entries.len() - 1
        };
        Self {
            places: asks.iter().map(place).collect(),
            entries,
            like,
        }
    }

    /// Decides without the stores, as far as possible. Returns whether the whole decision is granted.
    fn decide_here(&mut self) -> bool {
        self.entries.iter_mut().for_each(Entry::refuse_here);
        if !self.entries.iter().any(Entry::refuses) {
            let like = self.like;
            self.entries.iter_mut().for_each(|it| it.take_here(like));
        }
        let done = |entry: &Entry| entry.answer.is_some() && !entry.refuses();
        self.entries.iter().all(done)
    }

    /// The entries that the stores have to decide, and their subjects.
    fn rest(&self) -> (Vec<usize>, Subjects) {
        let rest = 0..self.entries.len();
        let rest: Vec<_> = rest
            .filter(|&index| self.entries[index].answer.is_none())
            .collect();
        let subject = |&index: &usize| {
            let entry = &self.entries[index];
            let limiter = entry.inner.limiter();
            let stored = entry.stored.clone();
            let mut subject = Subject::new(limiter, stored, entry.cost, entry.shadow)
                .reported_by(limiter.reporter(&entry.key));
            if let Some(fetch) = &entry.fetch {
                subject.borrow(fetch.most());
            }
            subject
        };
        let subjects = Subjects::of(rest.iter().map(subject).collect());
        (rest, subjects)
    }

    /// Calls the stores for the remaining entries.
    async fn ask(mut self) -> FleetDecision {
        let like = self.like;
        let (rest, mut subjects) = self.rest();
        let asked: Vec<_> = rest
            .iter()
            .map(|&index| self.entries[index].inner.clock.precise_now())
            .collect();
        let entries = &mut self.entries;
        let undecided = |part: &[usize], error: &StoreError| {
            let mut grants = true;
            for index in part.iter().map(|&index| rest[index]) {
                entries[index].without_store(like, error.kind());
                grants &= !entries[index].refuses();
            }
            Some(grants)
        };
        let outcome = subjects.decide(undecided).await;
        let outcome = outcome.unwrap_or(Outcome::Refused { compensated: false });
        let subjects = subjects.into_each().into_iter();
        for ((index, asked), subject) in rest.into_iter().zip(asked).zip(subjects) {
            self.entries[index].answered(like, asked, subject);
        }
        self.end(outcome)
    }

    /// Builds the decision. If it is refused, local grants are returned.
    fn end(mut self, outcome: Outcome) -> FleetDecision {
        for entry in self.entries.iter_mut().filter(|entry| !entry.shadow) {
            // In a refused decision only the refusals are counted.
            if entry.refuses() || outcome == Outcome::Admitted {
                let refused = entry.answer.as_ref().and_then(|it| it.denied.clone());
                let permit = entry.permit.take();
                let permit = permit.unwrap_or_else(|| Permit::spent(entry.grant(self.like)));
                let counted = entry.inner.counted(refused.map_or(Ok(permit), Err));
                entry.permit = counted.ok();
            }
        }
        let answers = self.answers();
        let permits = self.entries.into_iter().filter_map(|entry| entry.permit);
        let mut held = Permits::new();
        permits.for_each(|permit| held.push(permit));
        match outcome {
            Outcome::Admitted => StoreDecision::admitted(answers, held),
            Outcome::Refused { compensated } => {
                held.undo();
                StoreDecision::refused(answers, compensated)
            }
        }
    }

    fn answers(&self) -> StoreAnswers {
        let answer = |&place: &usize| {
            let entry = &self.entries[place];
            entry.answer.clone().unwrap_or_else(|| entry.known())
        };
        self.places.iter().map(answer).collect()
    }

    /// The answers if the stores do not answer in time.
    fn given_up(&self, reason: Reason) -> StoreAnswers {
        let answer = |&place: &usize| {
            let entry = &self.entries[place];
            entry
                .answer
                .clone()
                .unwrap_or_else(|| entry.given_up(reason))
        };
        self.places.iter().map(answer).collect()
    }

    /// Refuses without calling the stores. Local grants are returned.
    fn refuse(self, reason: Reason) -> FleetDecision {
        let answers = self.given_up(reason);
        drop(self.end(Outcome::Refused { compensated: false }));
        StoreDecision::refused(answers, false)
    }
}
