use crate::grant::Era;
use crate::{Demand, Grant, Moment};

/// The moment of a grant, as recorded under the lock of its limiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp {
    pub(crate) at: Moment,
    /// Distinguishes grants in one instant before and after a reset.
    pub(crate) era: Era,
}

impl Stamp {
    /// A grant of a limit that does not depend on time, made without reading a clock.
    pub(crate) const UNDATED: Self = Self {
        at: Moment::NEVER,
        era: Era::NONE,
    };

    /// A grant at a moment without a reset.
    pub(crate) fn at(at: Moment) -> Self {
        let era = Era::default();
        Self { at, era }
    }

    /// The grant of a demand at this moment.
    pub(crate) fn grant(self, demand: Demand) -> Grant {
        if self == Self::UNDATED {
            return Grant::of(demand);
        }
        demand.granted(self.at)
    }
}
