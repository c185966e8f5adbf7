//! Saving and restoring the states of [`PolicyKeys`], for another process.

use crate::by_key::{By, PolicyKeys};
use crate::retained::SubjectState;

impl PolicyKeys {
    /// Returns the number of parts that [`kept`](Self::kept) visits one by one.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(&self) -> usize {
        self.tables().map(|table| table.states().parts()).sum()
    }

    /// Calls `see` with the keys of a part and their states. It holds the lock that decisions on these keys take. A key of the
    /// fallback has no operation.
    #[doc(hidden)]
    pub fn kept(&self, mut part: usize, see: impl FnMut(&String, &SubjectState)) {
        for table in self.tables() {
            let parts = table.states().parts();
            if part < parts {
                return table.states().kept(part, see);
            }
            part -= parts;
        }
    }

    /// Restores the state of `key`. Returns whether there was room.
    #[doc(hidden)]
    pub fn restore(&self, key: &str, state: SubjectState) -> bool {
        match self.by(key) {
            By::State(states, key) => states.restore(key, |_, _| state).is_ok(),
            By::Unlimited | By::Refused => false,
        }
    }
}
