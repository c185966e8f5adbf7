//! One run of a scenario: a limiter, its clock, and its permits.

use std::fmt;

use plimsoll::{Carry, Demand, Denied, InvalidLimit, ManualClock, Moment};

use plimsoll_spec::{Kind, Number, Positive};

use super::check::{self, Answer};
use super::held::{HeldPermit, Holdings};
use super::limiters::{Controls, Heard, Keys, Subject};
use crate::report::Mismatch;
use crate::spec::{Ask, Step, Verb};

/// The reason why a verb was not executed.
pub(crate) enum Stop {
    /// No limiter supports the verb yet.
    NotYet(&'static str),
    /// The state of the scenario does not allow the verb, such as the release of a permit that was never granted.
    Impossible(Mismatch),
}

impl From<Mismatch> for Stop {
    fn from(mismatch: Mismatch) -> Self {
        Self::Impossible(mismatch)
    }
}

pub(crate) struct Session<'a> {
    subject: &'a Subject,
    clock: &'a ManualClock,
    holdings: Holdings<'a>,
    /// The events so far, if a step has expectations of events.
    heard: Option<Heard>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(subject: &'a Subject, clock: &'a ManualClock, listens: bool) -> Self {
        let listen = subject.listen.as_ref().filter(|_| listens);
        Self {
            subject,
            clock,
            holdings: Holdings::default(),
            heard: listen.map(|listen| listen()),
        }
    }

    /// Takes one step, and returns the differences from its expectations.
    pub(crate) fn step(&mut self, step: &Step) -> Result<Vec<Mismatch>, Stop> {
        self.clock.advance_to(Moment::from_nanos(step.at));
        self.holdings.settle();
        let answer = match &step.verb {
            Some(verb) => match (&self.subject.keys, &step.key) {
                (Some(keys), key) => self.act_on_key(&**keys, key.as_deref(), verb, step)?,
                (None, _) => self.act(verb, step.name.as_deref())?,
            },
            None => None,
        };
        self.holdings.settle();
        Ok(self.check(step, answer.as_ref()))
    }

    fn check(&mut self, step: &Step, answer: Option<&Answer>) -> Vec<Mismatch> {
        let mut found = Vec::new();
        if let (Some(expect), Some(answer)) = (&step.expect, answer) {
            found.extend(check::answer(expect, answer));
        }
        let now = self.clock.now();
        for (name, wanted) in &step.settled {
            let held = self.holdings.get(name);
            found.extend(held.and_then(|held| check::settled(name, *wanted, held, now)));
        }
        let snapshot = match &self.subject.keys {
            Some(keys) => keys.snapshot(step.key.as_deref()),
            None => self.subject.limiter.snapshot(),
        };
        let credit = step.expect.as_ref().and_then(|expect| expect.credit);
        found.extend(credit.and_then(|wanted| check::credit(wanted, answer, &snapshot)));
        // Grants and refusals are counted for all keys together.
        let totals = match &self.subject.keys {
            Some(keys) => keys.snapshot(None),
            None => snapshot,
        };
        for (gauge, wanted) in &step.gauges {
            let seen = if gauge.is_total() { &totals } else { &snapshot };
            found.extend(check::gauge(*gauge, *wanted, seen));
        }
        if let (Some(wanted), Some(heard)) = (&step.events, &mut self.heard) {
            let seen: Vec<&str> = heard.by_ref().collect();
            if seen != *wanted {
                let list = |words: &[&str]| format!("[{}]", words.join(", "));
                found.push(Mismatch::of("events", list(wanted), list(&seen)));
            }
        }
        let saturation = step.saturation;
        found.extend(saturation.and_then(|wanted| check::saturation(wanted, &snapshot)));
        found
    }

    /// Runs a verb. Verbs that ask for units have an answer.
    fn act(&mut self, verb: &Verb, name: Option<&str>) -> Result<Option<Answer>, Stop> {
        let limiter = &self.subject.limiter;
        match verb {
            Verb::Try(ask) => {
                let held = limiter
                    .try_acquire(demand(*ask))
                    .map_or_else(denied, HeldPermit::Permit);
                return Ok(Some(self.keep(name, held)));
            }
            Verb::Acquire(ask) => {
                let mut held = HeldPermit::Waiting(limiter.acquire(demand(*ask)));
                held.settle();
                return Ok(Some(self.keep(name, held)));
            }
            Verb::Reserve(ask) => {
                let reserved = limiter.reserve(demand(*ask));
                let held = reserved.map_or_else(denied, HeldPermit::Reserved);
                return Ok(Some(self.keep(name, held)));
            }
            Verb::Estimate(ask) => {
                let answer = limiter.estimate(demand(*ask));
                return Ok(Some(answer.map_or_else(
                    |denied| Answer::Denied(denied.into()),
                    |()| Answer::Granted,
                )));
            }
            Verb::TakeUpTo(cost) => {
                let permit = self.controls("take_up_to")?.take_up_to(*cost);
                let taken = permit.cost();
                self.holdings.keep(name, HeldPermit::Permit(permit));
                return Ok(Some(Answer::Taken(taken)));
            }
            Verb::Release(name) => self.holdings.release(name)?,
            Verb::Split { name, cost, part } => self.holdings.split(name, *cost, part)?,
            Verb::Merge { name, other } => self.holdings.merge(name, other)?,
            Verb::ForgetPermit(name) => self.holdings.forget_permit(name)?,
            Verb::Cancel(name) => self.holdings.cancel(name),
            Verb::Add(tokens) => self.controls("add")?.add(*tokens),
            Verb::Reset => self.controls("reset")?.reset(),
            Verb::Resize(limit) => self.resize(*limit)?,
            Verb::SetQueueBound(bound) => self.controls("set_queue_bound")?.set_queue_bound(*bound),
            Verb::Close => limiter.close(),
            Verb::SetRate(rate) => self.set_rate(*rate)?,
            Verb::Replace { by, carry } => {
                self.change("replace", "bandwidths", by, *carry)?;
            }
            Verb::Forget(_) => return Err(Stop::NotYet("forget")),
            Verb::Sample(used) => match &self.subject.sample {
                Some(sample) => sample(used),
                None => return Err(Stop::NotYet("sample")),
            },
        }
        Ok(None)
    }

    /// Runs a verb of a limiter with keys. Other verbs are not supported for keys.
    fn act_on_key(
        &mut self,
        keys: &'a dyn Keys,
        key: Option<&str>,
        verb: &Verb,
        step: &Step,
    ) -> Result<Option<Answer>, Stop> {
        let name = step.name.as_deref();
        match (verb, key) {
            (Verb::Try(ask), Some(key)) => {
                let answer = keys.try_acquire(key, demand(*ask));
                Ok(Some(self.keep(
                    name,
                    answer.map_or_else(denied, HeldPermit::Permit),
                )))
            }
            (Verb::Acquire(ask), Some(key)) => {
                let mut held = HeldPermit::Waiting(keys.acquire(key, demand(*ask)));
                held.settle();
                Ok(Some(self.keep(name, held)))
            }
            (Verb::Estimate(ask), Some(key)) => {
                let answer = keys.estimate(key, demand(*ask));
                let refused = |denied: Denied| Answer::Denied(denied.into());
                Ok(Some(answer.map_or_else(refused, |()| Answer::Granted)))
            }
            (Verb::TakeUpTo(cost), Some(key)) => {
                let permit = keys.take_up_to(key, *cost);
                let permit = permit.ok_or(Stop::NotYet("take_up_to"))?;
                let taken = permit.cost();
                self.holdings.keep(name, HeldPermit::Permit(permit));
                Ok(Some(Answer::Taken(taken)))
            }
            (Verb::Forget(key), _) => {
                if keys.forget(key) {
                    return Ok(None);
                }
                Err(Stop::NotYet("forget"))
            }
            (
                Verb::Release(_)
                | Verb::Split { .. }
                | Verb::Merge { .. }
                | Verb::ForgetPermit(_)
                | Verb::Cancel(_),
                _,
            ) => self.act(verb, name),
            _ => Err(Stop::NotYet("keyed")),
        }
    }

    fn keep(&mut self, name: Option<&str>, held: HeldPermit<'a>) -> Answer {
        let answer = match &held {
            HeldPermit::Denied(refusal) => Answer::Denied(refusal.clone()),
            HeldPermit::Waiting(_) => Answer::Pending,
            HeldPermit::Reserved(reservation) => {
                reservation.wait().map_or(Answer::Pending, Answer::Reserved)
            }
            _ => Answer::Granted,
        };
        self.holdings.keep(name, held);
        answer
    }

    /// The operations of the gate. Verbs that the limiter does not have were rejected when the file was read.
    fn controls(&self, verb: &'static str) -> Result<&'a dyn Controls, Stop> {
        self.subject.controls.as_deref().ok_or(Stop::NotYet(verb))
    }

    fn resize(&self, limit: u64) -> Result<(), Stop> {
        let mut kind = self.subject.kind.clone();
        if let Kind::Concurrency { limit: now, .. } = &mut kind {
            *now = Positive(limit);
        }
        self.change("resize", limit, &kind, Carry::AsIs)
    }

    fn set_rate(&self, rate: f64) -> Result<(), Stop> {
        let mut kind = self.subject.kind.clone();
        match &mut kind {
            Kind::SmoothBursty(smooth) => smooth.rate = Number(rate),
            Kind::SmoothWarmup(smooth) => smooth.rate = Number(rate),
            _ => {}
        }
        self.change("set_rate", rate, &kind, Carry::Proportional)
    }

    fn change(
        &self,
        verb: &'static str,
        wanted: impl fmt::Display,
        to: &Kind,
        carry: Carry,
    ) -> Result<(), Stop> {
        let refused = |error: InvalidLimit| Mismatch::of(verb, wanted, error);
        Ok((self.subject.change)(to, carry).map_err(refused)?)
    }
}

fn denied<'a>(denied: Denied) -> HeldPermit<'a> {
    HeldPermit::Denied(denied.into())
}

fn demand(ask: Ask) -> Demand {
    let demand = Demand::of(ask.cost).priority(ask.priority);
    match ask.within {
        Some(within) => demand.within(within),
        None => demand,
    }
}
