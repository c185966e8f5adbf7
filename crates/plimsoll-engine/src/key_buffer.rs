//! The keys of a decision.

use std::fmt::{self, Write};
use std::ops::Range;

use smallvec::SmallVec;

/// How many bytes the keys of a decision have together without an allocation.
const SHORT: usize = 96;

/// The keys of a decision, one after the other.
#[derive(Clone, Default)]
pub(crate) struct KeyBuffer(SmallVec<[u8; SHORT]>);

impl KeyBuffer {
    /// Where the next key begins.
    pub(crate) fn end(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn text(&self, key: Range<usize>) -> &str {
        // Only whole strings are written.
        std::str::from_utf8(&self.0[key]).unwrap_or_default()
    }

    /// Takes back what was written since `start`.
    pub(crate) fn cut(&mut self, start: usize) {
        self.0.truncate(start);
    }
}

impl Write for KeyBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
