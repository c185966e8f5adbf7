//! A decision about several limits, as it is sent.

use std::sync::Arc;

use redis::Cmd;

use crate::answer::{Answer, Decided};
use crate::rule::{Kind, amount};

/// The limits of one decision that one script decides.
pub(crate) struct Group {
    pub(crate) keys: Vec<Vec<u8>>,
    /// What is asked of them, as arguments: see `lua/many.lua`. Of one limit alone, nothing.
    pub(crate) words: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
    /// Whether all of them can be decided the quick way.
    pub(crate) everyday: bool,
    /// Set where it is about one limit that is enforced: decisions of which all is the same are decided in a run.
    pub(crate) alone: Option<Alone>,
}

impl Group {
    /// Whether both are decisions of one run.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = self.alone.as_ref().zip(other.alone.as_ref());
        let same = same.is_some_and(|(one, other)| one.is_same(other));
        same && self.keys == other.keys
    }

    /// Adds what is asked, with how much that is and how often it is asked.
    pub(crate) fn write(&self, times: usize, command: &mut Cmd) {
        command.arg(self.keys.len());
        match &self.alone {
            Some(Alone { cost, words, .. }) => {
                command.arg(2 + words.len()).arg(times);
                command.arg(amount(*cost)).arg("").arg(&words[..]);
            }
            None => {
                command.arg(self.words.len()).arg(times).arg(&self.words);
            }
        }
    }
}

/// What is asked of one limit that is enforced, without borrowing and without a lease.
#[derive(Clone)]
pub(crate) struct Alone {
    pub(crate) cost: u64,
    pub(crate) limit: u64,
    /// Its rule, as arguments.
    pub(crate) words: Arc<[String]>,
}

impl Alone {
    fn is_same(&self, other: &Self) -> bool {
        self.cost == other.cost && Arc::ptr_eq(&self.words, &other.words)
    }
}

/// The answer to a decision.
pub(crate) enum Replied {
    /// Whether it is admitted, and what each limit says.
    Each(Answer),
    /// What its one limit says.
    One(Decided),
}

/// Decisions of one store about several limits.
pub(crate) struct Groups;
