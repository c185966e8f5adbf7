use std::time::Duration;

use super::{Insight, Limit, Load, Sample};

/// An algorithm that is chosen at run time.
impl<L: Limit + ?Sized> Limit for Box<L> {
    fn limit(&self) -> u64 {
        (**self).limit()
    }

    fn sample(&mut self, sample: &Sample) {
        (**self).sample(sample);
    }

    fn tick_every(&self) -> Option<Duration> {
        (**self).tick_every()
    }

    fn tick(&mut self, load: Load) {
        (**self).tick(load);
    }

    fn queue_bound(&self) -> Option<u64> {
        (**self).queue_bound()
    }

    fn insight(&self) -> Insight {
        (**self).insight()
    }
}
