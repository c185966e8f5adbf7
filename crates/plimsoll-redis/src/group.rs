//! A decision about several limits, as it is sent.

use crate::answer::{Answer, Decided};
use crate::rule::Kind;

/// The limits of one decision that one script decides.
pub(crate) struct Group {
    pub(crate) keys: Vec<Vec<u8>>,
    /// What is asked of them, as arguments: see `lua/many.lua`.
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
        let same = self.alone.is_some() && self.alone == other.alone;
        same && self.keys == other.keys && self.words == other.words
    }
}

/// What is asked of one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Alone {
    pub(crate) limit: u64,
    pub(crate) cost: u64,
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
