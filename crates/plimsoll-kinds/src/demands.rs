use std::time::Duration;

use super::Weight;
use crate::{Demand, Moment, Priority};

/// What is asked of a [`Provider`](super::Provider): a cost for each weight, and how it may be waited for.
///
/// A list of costs is one that waits as long as it takes:
///
/// ```
/// use plimsoll::Priority;
/// use plimsoll::kinds::{Demands, Weight};
/// use std::time::Duration;
///
/// let costs = [(Weight::REQUEST_COUNT, 1), (Weight::NETWORK_BYTES, 512)];
/// let demands = Demands::of(&costs).priority(Priority::Critical).within(Duration::from_millis(50));
/// ```
///
/// The order of the list does not matter: there is [one order](Weight#the-order). A weight that is there twice counts
/// once, with both costs.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Demands<'a> {
    costs: &'a [(Weight, u32)],
    /// Everything but the cost.
    pub(super) like: Demand,
}

impl<'a> Demands<'a> {
    /// These costs, of normal priority, waited for as long as it takes.
    pub const fn of(costs: &'a [(Weight, u32)]) -> Self {
        Self {
            costs,
            like: Demand::of(0),
        }
    }

    /// Puts the demand into another class.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.like = self.like.priority(priority);
        self
    }

    /// Waits at most this long, for all weights together. A wait known to take longer is refused at once.
    pub const fn within(mut self, timeout: Duration) -> Self {
        self.like = self.like.within(timeout);
        self
    }

    /// Waits until this moment at the latest, on the clock of the first limiter that is asked. On the clocks of the others
    /// it is as long.
    pub const fn until(mut self, deadline: Moment) -> Self {
        self.like = self.like.until(deadline);
        self
    }

    /// What is asked for under `weight`, if anything.
    #[inline]
    pub(super) fn cost(&self, weight: Weight) -> Option<u32> {
        let mut costs = self.costs.iter().filter(|(key, _)| *key == weight);
        let (_, first) = costs.next()?;
        Some(costs.fold(*first, |sum, (_, cost)| sum.saturating_add(*cost)))
    }
}

impl<'a> From<&'a [(Weight, u32)]> for Demands<'a> {
    fn from(costs: &'a [(Weight, u32)]) -> Self {
        Self::of(costs)
    }
}

impl<'a, const N: usize> From<&'a [(Weight, u32); N]> for Demands<'a> {
    fn from(costs: &'a [(Weight, u32); N]) -> Self {
        Self::of(costs)
    }
}
