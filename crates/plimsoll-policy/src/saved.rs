//! What policies by key remember, for a process that comes after this one.

use crate::by_key::{By, PolicyKeys};
use crate::retained::Retained;

impl PolicyKeys {
    /// How many parts [`kept`](Self::kept) shows one by one.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(&self) -> usize {
        self.tables().map(|table| table.states().parts()).sum()
    }

    /// Shows the keys of a part with their states, behind a lock that decisions about these keys take as well. A key of the
    /// fallback has no operation.
    #[doc(hidden)]
    pub fn kept(&self, mut part: usize, see: impl FnMut(&String, &Retained)) {
        for table in self.tables() {
            let parts = table.states().parts();
            if part < parts {
                return table.states().kept(part, see);
            }
            part -= parts;
        }
    }

    /// Puts a state in the place of that of `key`. Says whether there was room.
    #[doc(hidden)]
    pub fn restore(&self, key: &str, state: Retained) -> bool {
        match self.by(key) {
            By::State(states, key) => states.restore(key, |_, _| state).is_ok(),
            By::Unlimited | By::Refused => false,
        }
    }
}
