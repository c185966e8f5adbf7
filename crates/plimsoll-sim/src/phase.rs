use crate::num::{NANOS, index, seconds};

/// A stretch of time that is summed up on its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    pub(crate) name: String,
    /// The first second.
    pub(crate) from: u64,
    /// The second after the last.
    pub(crate) to: u64,
}

impl Phase {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it begins and ends, in seconds from the start.
    #[must_use]
    pub fn span(&self) -> (f64, f64) {
        (seconds(self.from * NANOS), seconds(self.to * NANOS))
    }

    /// The seconds of it, as indices.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        index(self.from)..index(self.to)
    }
}
