//! One run of a scenario in Redis: a limiter, its clock, and its permits.

use std::collections::{BTreeSet, HashMap};

use plimsoll::{ManualClock, Moment};
use plimsoll_redis::{RedisPermit, StoreError};

use super::subject::Subject;
use super::with_source;
use crate::report::Mismatch;
use crate::run::check::{self, Answer};
use crate::run::held::Refusal;
use crate::spec::{Gauge, Outcome, Settled, Step, Verb};

pub(super) struct Session<'a> {
    subject: Subject,
    clock: &'a ManualClock,
    held: HashMap<String, HeldInStore>,
    /// Permits without a name. They are stored because dropping them would return them.
    unnamed: Vec<RedisPermit>,
    granted: u64,
    denied: u64,
    begun: bool,
    keys: BTreeSet<String>,
}

enum HeldInStore {
    Permit(RedisPermit),
    /// A reservation that can be used from this moment on.
    Reserved(Moment),
    Denied(Refusal),
    Gone,
}

/// The subject of a limiter without keys.
const ONLY: &str = "only";

impl<'a> Session<'a> {
    pub(super) fn new(subject: Subject, clock: &'a ManualClock) -> Self {
        Self {
            subject,
            clock,
            held: HashMap::new(),
            unnamed: Vec::new(),
            granted: 0,
            denied: 0,
            begun: false,
            keys: BTreeSet::new(),
        }
    }

    /// Takes one step, and returns the differences from its expectations.
    pub(super) async fn step(&mut self, step: &Step) -> Result<Vec<Mismatch>, Mismatch> {
        if !self.begun && !self.subject.keyed {
            self.subject.begin(ONLY).await.map_err(no_answer)?;
        }
        self.begun = true;
        self.clock.advance_to(Moment::from_nanos(step.at));
        let key = match &step.key {
            Some(key) if self.subject.keyed => key.as_str(),
            _ => ONLY,
        };
        self.keys.insert(key.to_owned());
        let answer = match &step.verb {
            Some(verb) => self.act(verb, key, step.name.as_deref()).await?,
            None => None,
        };
        self.check(step, key, answer.as_ref()).await
    }

    /// Removes the keys of the scenario from Redis. They would expire after an hour.
    pub(super) async fn end(self) {
        self.unnamed.into_iter().for_each(RedisPermit::forget);
        for held in self.held.into_values() {
            if let HeldInStore::Permit(permit) = held {
                permit.forget();
            }
        }
        for key in &self.keys {
            let _ = self.subject.forget(key).await;
        }
    }

    async fn act(
        &mut self,
        verb: &Verb,
        key: &str,
        name: Option<&str>,
    ) -> Result<Option<Answer>, Mismatch> {
        match verb {
            // Without a queue there are no waiters.
            Verb::Try(ask) | Verb::Acquire(ask) => {
                let decision = self.subject.decide(key, ask.cost).await;
                match decision.map_err(no_answer)? {
                    Ok(permit) => {
                        self.granted += 1;
                        self.keep(name, HeldInStore::Permit(permit));
                        return Ok(Some(Answer::Granted));
                    }
                    Err(refusal) => {
                        self.denied += 1;
                        self.keep(name, HeldInStore::Denied(refusal.clone()));
                        return Ok(Some(Answer::Denied(refusal)));
                    }
                }
            }
            Verb::Reserve(ask) => {
                let reserved = self.subject.reserve(key, ask.cost, ask.within).await;
                match reserved.map_err(no_answer)? {
                    Ok(wait) => {
                        self.granted += 1;
                        self.keep(name, HeldInStore::Reserved(self.clock.now().plus(wait)));
                        return Ok(Some(Answer::Reserved(wait)));
                    }
                    Err(refusal) => {
                        self.denied += 1;
                        self.keep(name, HeldInStore::Denied(refusal.clone()));
                        return Ok(Some(Answer::Denied(refusal)));
                    }
                }
            }
            Verb::Estimate(ask) => {
                let estimate = self.subject.estimate(key, ask.cost).await;
                let estimate = estimate.map_err(no_answer)?;
                return Ok(Some(
                    estimate.map_or_else(Answer::Denied, |()| Answer::Granted),
                ));
            }
            Verb::TakeUpTo(most) => {
                let permit = self.subject.take_up_to(key, *most).await;
                let permit = permit.map_err(no_answer)?;
                let taken = permit.cost();
                self.granted += u64::from(taken > 0);
                self.keep(name, HeldInStore::Permit(permit));
                return Ok(Some(Answer::Taken(taken)));
            }
            Verb::Release(name) => self.release(name).await?,
            Verb::ForgetPermit(name) => self.take(name)?.forget(),
            Verb::Add(tokens) => self.subject.add(key, *tokens).await.map_err(no_answer)?,
            Verb::Reset => self.subject.reset(key).await.map_err(no_answer)?,
            Verb::Forget(key) => self.subject.forget(key).await.map_err(no_answer)?,
            // Such scenarios are not run.
            _ => return Err(Mismatch::new("a verb that Redis has", "another")),
        }
        Ok(None)
    }

    fn keep(&mut self, name: Option<&str>, held: HeldInStore) {
        match (name, held) {
            (Some(name), held) => {
                let before = self.held.insert(name.to_owned(), held);
                if let Some(HeldInStore::Permit(permit)) = before {
                    self.unnamed.push(permit);
                }
            }
            (None, HeldInStore::Permit(permit)) => self.unnamed.push(permit),
            (None, _) => {}
        }
    }

    /// Returns a permit. Returning it again has no effect.
    async fn release(&mut self, name: &str) -> Result<(), Mismatch> {
        match self.held.get(name) {
            // A rate has no permits to return.
            Some(HeldInStore::Reserved(ready)) if *ready <= self.clock.now() => return Ok(()),
            Some(HeldInStore::Gone) => return Ok(()),
            _ => {}
        }
        let permit = self.take(name)?;
        permit.release().await.map_err(no_answer)?;
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<RedisPermit, Mismatch> {
        match self.held.insert(name.to_owned(), HeldInStore::Gone) {
            Some(HeldInStore::Permit(permit)) => Ok(permit),
            Some(HeldInStore::Denied(_)) => {
                Err(Mismatch::named(name, "to hold a permit", "denied"))
            }
            _ => Err(Mismatch::named(
                name,
                "to hold a permit",
                "one that is gone",
            )),
        }
    }

    async fn check(
        &self,
        step: &Step,
        key: &str,
        answer: Option<&Answer>,
    ) -> Result<Vec<Mismatch>, Mismatch> {
        let mut found = Vec::new();
        if let (Some(expect), Some(answer)) = (&step.expect, answer) {
            found.extend(check::answer(expect, answer));
        }
        for (name, wanted) in &step.settled {
            found.extend(self.settled(name, *wanted));
        }
        if step.gauges.is_empty() && step.saturation.is_none() {
            return Ok(found);
        }
        let (seen, limit) = self.subject.look(key).await.map_err(no_answer)?;
        for (gauge, wanted) in &step.gauges {
            let got = match gauge {
                Gauge::Available => seen.available,
                Gauge::InUse => seen.in_use,
                Gauge::Limit => limit,
                Gauge::GrantedTotal => self.granted,
                Gauge::DeniedTotal => self.denied,
                // There are no waiters.
                Gauge::Queued | Gauge::Waiters | Gauge::EvictedTotal | Gauge::CancelledTotal => 0,
            };
            if got != *wanted {
                found.push(Mismatch::of(gauge.word(), wanted, got));
            }
        }
        if let Some(wanted) = step.saturation {
            #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
            let got = (seen.in_use as f64 / limit as f64).min(1.0);
            if (got - wanted).abs() > 1e-9 {
                found.push(Mismatch::of("saturation", wanted, got));
            }
        }
        Ok(found)
    }

    fn settled(&self, name: &str, wanted: Settled) -> Option<Mismatch> {
        let (got, reason) = match self.held.get(name)? {
            HeldInStore::Reserved(ready) if *ready > self.clock.now() => (Outcome::Pending, None),
            HeldInStore::Permit(_) | HeldInStore::Reserved(_) | HeldInStore::Gone => {
                (Outcome::Granted, None)
            }
            HeldInStore::Denied(refusal) => (Outcome::Denied, Some(refusal.reason)),
        };
        let fits = got == wanted.result && (wanted.reason.is_none() || wanted.reason == reason);
        (!fits).then(|| Mismatch::named(name, wanted.result.word(), got.word()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over errors")]
fn no_answer(error: StoreError) -> Mismatch {
    Mismatch::new("an answer of Redis", with_source(&error))
}
