//! One limiter of every rate, so that a test can be run on each.

use std::sync::Arc;

use plimsoll::{Clock, FixedWindow, Gate, Limiter, Queue, Quota, Rule, SlidingWindow, TokenBucket};

/// How many segments the sliding window has.
pub(crate) const SEGMENTS: u32 = 5;

/// Each rule that replenishes with time, named after it.
pub(crate) fn rates(quota: Quota, queue: Option<Queue>, clock: &Clock) -> Vec<Arc<dyn Limiter>> {
    vec![
        gate("greedy", TokenBucket::greedy(quota), queue, clock),
        gate("interval", TokenBucket::interval(quota), queue, clock),
        gate("fixed", FixedWindow::new(quota), queue, clock),
        gate("sliding", SlidingWindow::new(quota, SEGMENTS), queue, clock),
    ]
}

/// A limiter of the rule.
pub(crate) fn gate<R: Rule>(
    name: &str,
    rule: R,
    queue: Option<Queue>,
    clock: &Clock,
) -> Arc<dyn Limiter> {
    let builder = Gate::builder(rule).name(name).clock(clock.clone());
    Arc::new(match queue {
        Some(queue) => builder.queue(queue).build(),
        None => builder.build(),
    })
}
