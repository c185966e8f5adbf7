//! One script for all subjects of a slot, and several scripts as one decision.

use super::subject::{Subject, Verb};
use crate::answer::{Answer, Decided};
use crate::group::Group;
use crate::lanes::LARGEST;
use crate::script::Script;
use crate::{RedisLimiter, StoreError};

/// What one decision is about: each subject once.
pub(crate) struct Subjects {
    all: Vec<Subject>,
    /// Those that one script decides about: of one store and one hash slot.
    parts: Vec<Vec<usize>>,
}

/// What a decision came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Admitted,
    Refused {
        /// Whether something was taken, and undone because a later part refused.
        compensated: bool,
    },
}

impl Subjects {
    /// The subjects of a list, and the subject of each of its entries. The costs of an entry that is there twice add up.
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

    /// Subjects that are all different.
    pub(crate) fn of(all: Vec<Subject>) -> Self {
        let mut parts = Vec::<Vec<usize>>::new();
        for (index, subject) in all.iter().enumerate() {
            let store = subject.limiter().store();
            let slot = |subject: &Subject| store.slot(subject.key());
            let together = |part: &&mut Vec<usize>| {
                let first = &all[part[0]];
                let near = first.limiter().store().is(store) && slot(first) == slot(subject);
                near && part.len() < LARGEST
            };
            match parts.iter_mut().find(together) {
                Some(part) => part.push(index),
                None => parts.push(vec![index]),
            }
        }
        // What cannot refuse comes last: it is taken only if all others grant.
        parts.sort_by_key(|part| part.iter().all(|&index| all[index].is_shadow()));
        Self { all, parts }
    }

    pub(crate) fn each(&self) -> &[Subject] {
        &self.all
    }

    pub(crate) fn into_each(self) -> Vec<Subject> {
        self.all
    }

    /// Those that were taken from.
    pub(super) fn taken(self) -> Self {
        Self::of(self.all.into_iter().filter(Subject::is_taken).collect())
    }

    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Subject> {
        self.all.iter_mut()
    }

    /// Takes from all that grant if none refuses; part after part. `undecided` says what becomes of subjects about which the
    /// store could not decide: all go ahead, one is refused, or nobody knows.
    ///
    /// Of a refused decision every subject has an answer: what was taken is returned, and the
    /// subjects that were not taken from are only looked at.
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
                // An answer that does not come is said to be missing.
                let _ = self.send(Verb::Peek, later).await;
            }
            self.each_mut().for_each(|subject| subject.tell(false));
            return Ok(Outcome::Refused { compensated });
        }
        self.each_mut().for_each(|subject| subject.tell(true));
        Ok(Outcome::Admitted)
    }

    /// What `decide` would answer.
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

    /// Takes after the fact. Tries all, whatever becomes of one.
    pub(super) async fn charge(&mut self) -> Result<(), StoreError> {
        let mut answer = Ok(());
        for part in 0..self.parts.len() {
            answer = answer.and(self.send(Verb::Charge, part).await.map(drop));
        }
        answer
    }

    /// Undoes all that was taken. Tries all, whatever becomes of one.
    pub(super) async fn undo_all(&mut self) -> Result<(), StoreError> {
        let mut answer = Ok(());
        for part in 0..self.parts.len() {
            answer = answer.and(self.undo_part(part).await.map(drop));
        }
        answer
    }

    /// Undoes what was taken in these parts, and says whether anything was. What a store that does not answer cannot undo
    /// stays charged until it has replenished itself; leases are returned in the background.
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

    /// Runs one script, and says whether it admits.
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
        // Apart, so that a decision about one limit is small: it is moved some times before it begins.
        Box::pin(self.run_script(verb, part)).await
    }

    async fn run_script(&mut self, verb: Verb, part: usize) -> Result<bool, StoreError> {
        let part = &self.parts[part];
        let Some(first) = part.first() else {
            return Ok(true);
        };
        let store = self.all[*first].limiter().store().clone();
        let mut keys = Vec::with_capacity(part.len());
        let mut words = Vec::new();
        for &index in part {
            let subject = &mut self.all[index];
            keys.push(subject.key().to_vec());
            subject.write(verb, &mut words);
        }
        let each = part.iter().map(|&index| &self.all[index]);
        let everyday = each.clone().all(Subject::is_everyday);
        let kinds = each.map(Subject::kind);
        let mut answer = if verb == Verb::Take {
            let group = Group {
                keys,
                words,
                kinds: kinds.collect(),
                everyday,
            };
            store.decide_group(group).await?
        } else {
            words.splice(..0, [verb.as_str().to_owned(), store.now(), String::new()]);
            let script = Script::many(kinds, everyday);
            Answer::new(store.run(script, &keys, &words).await?)?
        };
        let admits = answer.number::<u8>()? == 1;
        for &index in part {
            self.all[index].read(verb, admits, &mut answer)?;
        }
        Ok(admits)
    }
}
