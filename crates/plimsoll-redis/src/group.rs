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
}

impl Group {
    /// Appends the number of limits and their arguments.
    pub(crate) fn write(&self, command: &mut Cmd) {
        command.arg(self.keys.len()).arg(self.words.len());
        command.arg(&self.words);
    }
}

/// Sends batches of decisions about several limits.
pub(crate) struct GroupBatches;
