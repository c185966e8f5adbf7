//! A decision about several limits, as it is sent.

use redis::Cmd;

use crate::rule::Kind;

/// The limits of one decision that one script decides.
pub(crate) struct Group {
    pub(crate) keys: Vec<Vec<u8>>,
    /// What is asked of them, as arguments: see `lua/many.lua`.
    pub(crate) words: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
    /// Whether all of them can be decided the quick way.
    pub(crate) everyday: bool,
}

impl Group {
    /// Adds what is asked, with how much that is.
    pub(crate) fn write(&self, command: &mut Cmd) {
        command.arg(self.keys.len()).arg(self.words.len());
        command.arg(&self.words);
    }
}

/// Decisions of one store about several limits.
pub(crate) struct Groups;
