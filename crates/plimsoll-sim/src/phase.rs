use crate::num::{NANOS, index, seconds};

/// A part of a simulation with a [`Summary`](crate::Summary) of its own, in whole seconds. Phases may overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    pub(crate) name: String,
    /// The first second.
    pub(crate) from: u64,
    /// The second after the last.
    pub(crate) to: u64,
}

impl Phase {
    /// The name of the phase.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The start and the end of the phase, in seconds from the start of the simulation.
    #[must_use]
    pub fn span(&self) -> (f64, f64) {
        (seconds(self.from * NANOS), seconds(self.to * NANOS))
    }

    /// The seconds of the phase, as indices.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        index(self.from)..index(self.to)
    }
}
