use std::ops::Deref;
use std::time::Duration;

use plimsoll::{Denied, Standing};

use super::permits::StorePermits;
use super::subjects::Subjects;
use crate::StoreErrorKind;

/// The answer to one ask of a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreAnswer {
    /// The limit, its window and the remainder; if the decision is admitted, after the grant.
    pub standing: Standing,
    /// The refusal, with its reason and retry time; `None` if the limit grants.
    pub denied: Option<Denied>,
    /// Whether the ask is in shadow mode, so that its refusal does not refuse the decision.
    pub shadow: bool,
    /// The [fencing token](plimsoll::LeaseState::fence) of its lease, if it has one.
    pub fence: Option<u64>,
    /// The reason why the store did not decide, or did not undo a grant after another ask was refused.
    pub cause: Option<StoreErrorKind>,
}

impl StoreAnswer {
    /// Returns whether the limit grants this ask.
    #[must_use]
    pub fn grants(&self) -> bool {
        self.denied.is_none()
    }

    /// Returns the same answer with a refusal.
    pub(crate) fn refused(mut self, denied: Denied) -> Self {
        self.denied = Some(denied);
        self
    }

    fn refuses(&self) -> bool {
        !self.grants() && !self.shadow
    }
}

/// The answers of a decision, in the order of its asks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StoreAnswers {
    each: Vec<StoreAnswer>,
}

impl StoreAnswers {
    pub(super) fn of(subjects: &Subjects, places: &[usize]) -> Self {
        let each = subjects.each();
        places.iter().map(|&place| each[place].answer()).collect()
    }

    /// Returns whether no enforced ask refuses.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        !self.each.iter().any(StoreAnswer::refuses)
    }

    /// Returns the index of the binding ask: the refused one with the longest retry time, the first of several. `None`
    /// if none refuses.
    #[must_use]
    pub fn binding(&self) -> Option<usize> {
        let refusing = self.each.iter().enumerate();
        let refusing = refusing.filter(|(_, answer)| answer.refuses());
        let wait = |answer: &StoreAnswer| {
            let denied = answer.denied.as_ref();
            // An unknown retry time counts as longer than any known one.
            denied
                .and_then(Denied::retry_after)
                .unwrap_or(Duration::MAX)
        };
        refusing
            .rev()
            .max_by_key(|(_, answer)| wait(answer))
            .map(|(index, _)| index)
    }

    /// Returns the refusal of the decision: that of the [binding](Self::binding) ask. After its retry time all asks
    /// would be granted if there were no other demands.
    #[must_use]
    pub fn denied(&self) -> Option<&Denied> {
        self.each[self.binding()?].denied.as_ref()
    }
}

impl FromIterator<StoreAnswer> for StoreAnswers {
    fn from_iter<T: IntoIterator<Item = StoreAnswer>>(answers: T) -> Self {
        Self {
            each: answers.into_iter().collect(),
        }
    }
}

impl Deref for StoreAnswers {
    type Target = [StoreAnswer];

    fn deref(&self) -> &[StoreAnswer] {
        &self.each
    }
}

/// A decision about several limits. [`Store::decide_all`](crate::Store::decide_all) returns one.
#[derive(Debug)]
#[must_use = "permits that are dropped are returned"]
pub struct StoreDecision<P = StorePermits> {
    answers: StoreAnswers,
    permits: Option<P>,
    compensated: bool,
}

impl<P> StoreDecision<P> {
    pub(crate) fn admitted(answers: StoreAnswers, permits: P) -> Self {
        Self {
            answers,
            permits: Some(permits),
            compensated: false,
        }
    }

    pub(crate) fn refused(answers: StoreAnswers, compensated: bool) -> Self {
        Self {
            answers,
            permits: None,
            compensated,
        }
    }

    /// Returns whether the decision was admitted and all asks were taken. Otherwise none was.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.permits.is_some()
    }

    /// Returns the answer to each ask, in the order of the asks.
    #[must_use]
    pub fn answers(&self) -> &StoreAnswers {
        &self.answers
    }

    /// Returns whether the decision was refused after some asks had been taken, which were then undone. This happens if
    /// the decision needs several scripts: in a cluster, or with several stores.
    #[must_use]
    pub fn is_compensated(&self) -> bool {
        self.compensated
    }

    /// Converts to a `Result`, with the refusal as the error.
    ///
    /// # Errors
    ///
    /// Returns the [refusal](StoreAnswers::denied) of the decision.
    pub fn into_result(self) -> Result<P, Denied> {
        let Self {
            answers, permits, ..
        } = self;
        permits.ok_or_else(|| {
            let denied = answers.denied().cloned();
            denied.unwrap_or_else(|| Denied::new(plimsoll::Reason::Unavailable))
        })
    }
}
