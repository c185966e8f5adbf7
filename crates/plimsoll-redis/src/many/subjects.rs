//! The subjects of a decision: one script for each hash slot, combined to one decision.

use super::subject::{Subject, Verb};
use crate::answer::{Answer, Decided};
use crate::batcher::MAX_SUBJECTS;
use crate::group::{Group, Member};
use crate::script::Script;
use crate::{RedisLimiter, StoreError};

/// The distinct subjects of a decision.
pub(crate) struct Subjects {
    all: Vec<Subject>,
    /// The subjects of each script: those of one store and one hash slot.
    parts: Vec<Vec<usize>>,
}

/// The outcome of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Admitted,
    Refused {
        /// Whether earlier parts had been taken and were undone.
        compensated: bool,
    },
}

impl Subjects {
    /// The distinct subjects of a list, and the index of the subject of each entry. Costs of equal subjects are added.
    pub(crate) fn new<'a>(
        asks: impl IntoIterator<Item = (&'a RedisLimiter, &'a [u8], u64, bool)>,
    ) -> (Self, Vec<usize>) {
        let mut all = Vec::<Subject>::new();
        let place = |(limiter, key, cost, shadow): (&RedisLimiter, &[u8], u64, bool)| {
            let reporter = limiter.reporter(key);
            let key = limiter.key(key);
            let same = |subject: &Subject| {
                subject.key() == key && subject.limiter().store().is(limiter.store())
            };
            if let Some(place) = all.iter().position(same) {
                all[place].add(cost, shadow);
                return place;
            }
            all.push(Subject::new(limiter, key, cost, shadow).reported_by(reporter));
            all.len() - 1
        };
        let places = asks.into_iter().map(place).collect();
        (Self::of(all), places)
    }

    /// Subjects that are known to be distinct.
    pub(crate) fn of(all: Vec<Subject>) -> Self {
        let mut parts = Vec::<Vec<usize>>::new();
        for (index, subject) in all.iter().enumerate() {
            let store = subject.limiter().store();
            let slot = |subject: &Subject| store.slot(subject.key());
            let together = |part: &&mut Vec<usize>| {
                let first = &all[part[0]];
                let near = first.limiter().store().is(store) && slot(first) == slot(subject);
                near && part.len() < MAX_SUBJECTS
            };
            match parts.iter_mut().find(together) {
                Some(part) => part.push(index),
                None => parts.push(vec![index]),
            }
        }
        // Parts that cannot refuse come last: they are taken only if all others grant.
        parts.sort_by_key(|part| part.iter().all(|&index| all[index].is_shadow()));
        Self { all, parts }
    }

    pub(crate) fn each(&self) -> &[Subject] {
        &self.all
    }

    pub(crate) fn into_each(self) -> Vec<Subject> {
        self.all
    }

    /// The subjects that were taken.
    pub(super) fn taken(self) -> Self {
        Self::of(self.all.into_iter().filter(Subject::is_taken).collect())
    }

    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Subject> {
        self.all.iter_mut()
    }

    /// Takes part after part, if no part refuses. `undecided` decides for subjects for which the store did not: granted, refused, or an
    /// error.
    ///
    /// If the decision is refused, every subject still has an answer: earlier parts are undone, and later parts are only read.
    pub(crate) async fn decide(
        &mut self,
        mut undecided: impl FnMut(&[usize], &StoreError) -> Option<bool>,
    ) -> Result<Outcome, StoreError> {
        for part in 0..self.parts.len() {
            let refused = match self.send(Verb::Take, part).await {
                Ok(true) => continue,
                Ok(false) => Ok(()),
                Err(error) => match undecided(&self.parts[part], &error) {
                    Some(true) => continue,
                    Some(false) => Ok(()),
                    None => Err(error),
                },
            };
            let compensated = self.undo(0..part).await;
            refused?;
            for later in part + 1..self.parts.len() {
                // A missing answer is recorded in its subjects.
                let _ = self.send(Verb::Peek, later).await;
            }
            self.each_mut().for_each(|subject| subject.report(false));
            return Ok(Outcome::Refused { compensated });
        }
        self.each_mut().for_each(|subject| subject.report(true));
        Ok(Outcome::Admitted)
    }

    /// Returns what `decide` would decide.
    pub(crate) async fn peek(
        &mut self,
        mut undecided: impl FnMut(&[usize], &StoreError) -> Option<bool>,
    ) -> Result<(), StoreError> {
        for part in 0..self.parts.len() {
            if let Err(error) = self.send(Verb::Peek, part).await
                && undecided(&self.parts[part], &error).is_none()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Charges all parts, even if one fails.
    pub(super) async fn charge(&mut self) -> Result<(), StoreError> {
        let mut answer = Ok(());
        for part in 0..self.parts.len() {
            answer = answer.and(self.send(Verb::Charge, part).await.map(drop));
        }
        answer
    }

    /// Undoes all parts, even if one fails.
    pub(super) async fn undo_all(&mut self) -> Result<(), StoreError> {
        let mut answer = Ok(());
        for part in 0..self.parts.len() {
            answer = answer.and(self.undo_part(part).await.map(drop));
        }
        answer
    }

    /// Undoes these parts. Returns whether anything had been taken. If the store does not answer, rates stay charged until they refill,
    /// and leases are released in the background.
    async fn undo(&mut self, parts: std::ops::Range<usize>) -> bool {
        let mut undone = false;
        for part in parts {
            undone |= !matches!(self.undo_part(part).await, Ok(false));
        }
        undone
    }

    async fn undo_part(&mut self, part: usize) -> Result<bool, StoreError> {
        let taken = |&index: &usize| self.all[index].is_taken();
        if !self.parts[part].iter().any(taken) {
            return Ok(false);
        }
        self.send(Verb::Undo, part).await?;
        Ok(true)
    }

    /// Runs the script of a part. Returns whether it admits.
    async fn send(&mut self, verb: Verb, part: usize) -> Result<bool, StoreError> {
        let sent = self.run(verb, part).await;
        if let Err(error) = &sent {
            for &index in &self.parts[part] {
                self.all[index].failed(error.kind());
            }
        }
        sent
    }

    async fn run(&mut self, verb: Verb, part: usize) -> Result<bool, StoreError> {
        if let (Verb::Take, [one]) = (verb, &self.parts[part][..]) {
            let one = &mut self.all[*one];
            if one.is_plain() {
                let decided = one.decide_alone().await?;
                let admits = matches!(decided, Decided::Granted(..));
                one.decided(verb, admits, decided, None);
                return Ok(admits);
            }
        }
        // Boxed to keep the future for one limit small: it is moved several times before it is polled.
        Box::pin(self.run_script(verb, part)).await
    }

    async fn run_script(&mut self, verb: Verb, part: usize) -> Result<bool, StoreError> {
        let part = &self.parts[part];
        let Some(first) = part.first() else {
            return Ok(true);
        };
        let store = self.all[*first].limiter().store().clone();
        let mut keys = Vec::with_capacity(part.len());
        let mut members = Vec::with_capacity(part.len());
        for &index in part {
            let subject = &mut self.all[index];
            keys.push(subject.key().to_vec());
            members.push(subject.member(verb));
        }
        let each = part.iter().map(|&index| &self.all[index]);
        let quick = each.clone().all(Subject::is_quick);
        let in_runs = each.clone().all(Subject::is_in_runs);
        let kinds = each.map(Subject::kind);
        let mut answer = if verb == Verb::Take {
            let group = Group {
                keys,
                members,
                kinds: kinds.collect(),
                quick,
                in_runs,
            };
            store.decide_group(group).await?
        } else {
            let mut words = vec![verb.as_str().to_owned(), store.now(), String::new()];
            words.extend(members.into_iter().flat_map(Member::into_words));
            let script = Script::many(kinds, quick);
            Answer::new(store.run(script, &keys, &words).await?)?
        };
        let admits = answer.number::<u8>()? == 1;
        for &index in part {
            self.all[index].read(verb, admits, &mut answer)?;
        }
        Ok(admits)
    }
}
