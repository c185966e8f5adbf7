use std::ops::Deref;
use std::time::Duration;

use plimsoll::{Denied, Standing};

use super::permits::StorePermits;
use super::subjects::Subjects;
use crate::StoreErrorKind;

/// What one ask of a decision was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreAnswer {
    /// The limit, its window, and what is left of it: after what was taken, if the decision is admitted.
    pub standing: Standing,
    /// Why it refuses, and until when; `None` if it grants.
    pub denied: Option<Denied>,
    /// Whether it is evaluated only, so that its refusal does not refuse the decision.
    pub shadow: bool,
    /// The [fencing number](plimsoll::LeaseState::fence) of its lease, if it is held by one.
    pub fence: Option<u64>,
    /// What kept the store from deciding, or from undoing what it had taken before another ask was refused.
    pub cause: Option<StoreErrorKind>,
}

impl StoreAnswer {
    /// Whether it grants: what it was asked for, if it is not what refuses the decision.
    #[must_use]
    pub fn grants(&self) -> bool {
        self.denied.is_none()
    }

    /// The same, refused.
    pub(crate) fn refused(mut self, denied: Denied) -> Self {
        self.denied = Some(denied);
        self
    }

    fn refuses(&self) -> bool {
        !self.grants() && !self.shadow
    }
}

/// The answers of one decision, in the order of its asks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StoreAnswers {
    each: Vec<StoreAnswer>,
}

impl StoreAnswers {
    pub(super) fn of(subjects: &Subjects, places: &[usize]) -> Self {
        let each = subjects.each();
        places.iter().map(|&place| each[place].answer()).collect()
    }

    /// Whether none refuses that is enforced.
    #[must_use]
    pub fn are_granted(&self) -> bool {
        !self.each.iter().any(StoreAnswer::refuses)
    }

    /// The position of the ask that refuses longest, the first if there are several; `None` if none refuses. It names the
    /// refusal of the decision.
    #[must_use]
    pub fn binding(&self) -> Option<usize> {
        let refusing = self.each.iter().enumerate();
        let refusing = refusing.filter(|(_, answer)| answer.refuses());
        let wait = |answer: &StoreAnswer| {
            let denied = answer.denied.as_ref();
            // Longer than any is a time that nobody knows.
            denied
                .and_then(Denied::retry_after)
                .unwrap_or(Duration::MAX)
        };
        refusing
            .rev()
            .max_by_key(|(_, answer)| wait(answer))
            .map(|(index, _)| index)
    }

    /// The refusal of the decision: that of the [binding](Self::binding) ask. Its time to retry is the least after which all
    /// would grant if nobody else came.
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

/// What a decision about many subjects came to. Made by [`Store::decide_all`](crate::Store::decide_all).
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

    /// Whether all were taken from. If not, none was.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.permits.is_some()
    }

    /// What each ask was answered, in their order.
    #[must_use]
    pub fn answers(&self) -> &StoreAnswers {
        &self.answers
    }

    /// Whether it is refused, but something had been taken before that was known, and was undone: in a cluster, where not
    /// all keys can be used by one script, and where several stores are asked.
    #[must_use]
    pub fn is_compensated(&self) -> bool {
        self.compensated
    }

    /// The permits, or the refusal as an error.
    ///
    /// # Errors
    ///
    /// The [refusal](StoreAnswers::denied) of the decision.
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
