use std::time::Duration;

use plimsoll::{Demand, Moment, Priority};

use crate::weight::Weight;

/// A demand to a [`Provider`](crate::Provider): a cost for each weight, a priority, and a time-out.
///
/// A list of costs converts into demands without a time-out:
///
/// ```
/// use plimsoll::Priority;
/// use plimsoll_kinds::{Demands, Weight};
/// use std::time::Duration;
///
/// let costs = [(Weight::REQUEST_COUNT, 1), (Weight::NETWORK_BYTES, 512)];
/// let demands = Demands::of(&costs).priority(Priority::Critical).within(Duration::from_millis(50));
/// ```
///
/// The order of the list does not matter: weights are acquired in [their order](Weight#the-order). Costs of the same weight
/// are added.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Demands<'a> {
    costs: &'a [(Weight, u64)],
    /// Everything but the cost.
    pub(crate) like: Demand,
}

impl<'a> Demands<'a> {
    /// Creates a demand of these costs, at normal priority, without a time-out.
    pub const fn of(costs: &'a [(Weight, u64)]) -> Self {
        Self {
            costs,
            like: Demand::of(0),
        }
    }

    /// Sets the priority class.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.like = self.like.priority(priority);
        self
    }

    /// Sets the longest wait for all weights together. If the wait is known to be longer, the demand is refused at
    /// once.
    pub const fn within(mut self, timeout: Duration) -> Self {
        self.like = self.like.within(timeout);
        self
    }

    /// Sets the latest moment of the wait, on the clock of the first limiter. Limiters with other clocks wait for the
    /// same span of time.
    pub const fn until(mut self, deadline: Moment) -> Self {
        self.like = self.like.until(deadline);
        self
    }

    /// The cost of `weight`, if it is asked for.
    #[inline]
    pub(crate) fn cost(&self, weight: Weight) -> Option<u64> {
        let mut costs = self.costs.iter().filter(|(key, _)| *key == weight);
        let (_, first) = costs.next()?;
        Some(costs.fold(*first, |sum, (_, cost)| sum.saturating_add(*cost)))
    }
}

impl<'a> From<&'a [(Weight, u64)]> for Demands<'a> {
    fn from(costs: &'a [(Weight, u64)]) -> Self {
        Self::of(costs)
    }
}

impl<'a, const N: usize> From<&'a [(Weight, u64); N]> for Demands<'a> {
    fn from(costs: &'a [(Weight, u64); N]) -> Self {
        Self::of(costs)
    }
}
