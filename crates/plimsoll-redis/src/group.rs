//! The part of a decision about several limits that one script decides.

use redis::Cmd;

use crate::rule::RuleKind;

/// The limits of a decision that are in one hash slot, with their script arguments.
pub(crate) struct Group {
    pub(crate) keys: Vec<Vec<u8>>,
    /// The script arguments of the limits: see `lua/many.lua`.
    pub(crate) words: Vec<String>,
    pub(crate) kinds: Vec<RuleKind>,
    /// Whether the quick script can decide all of them.
    pub(crate) quick: bool,
    /// Whether decisions with the same arguments can be answered together: each takes something, and none has leases or borrows.
    pub(crate) in_runs: bool,
}

impl Group {
    /// Whether both can be answered together.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.in_runs && other.in_runs && self.keys == other.keys && self.words == other.words
    }

    /// Appends `count` such decisions: the number of limits, that of their arguments, the count, and the arguments.
    pub(crate) fn write(&self, count: usize, command: &mut Cmd) {
        command.arg(self.keys.len()).arg(self.words.len());
        command.arg(count).arg(&self.words);
    }
}

/// Sends batches of decisions about several limits.
pub(crate) struct GroupBatches;
