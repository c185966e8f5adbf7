use crate::grant::Era;
use crate::{Demand, Grant, Moment};

/// When something was granted, seen from behind the lock of its limiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp {
    pub(crate) at: Moment,
    /// Tells apart what was granted in one instant before and after a reset.
    pub(crate) era: Era,
}

impl Stamp {
    /// A grant of a limit that does not depend on time, for which no clock was read.
    pub(crate) const UNDATED: Self = Self {
        at: Moment::NEVER,
        era: Era::NONE,
    };

    /// A grant at a moment in which nothing was reset.
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
