//! Limiters to put together.

use std::sync::Arc;

use plimsoll::{All, Gate, Limiter, ManualClock, Queue, Quota, Rule, TokenBucket};

pub(crate) fn gate<R: Rule>(rule: R, time: &ManualClock) -> Arc<Gate<R>> {
    Arc::new(Gate::builder(rule).clock(time.clock()).build())
}

pub(crate) fn queued<R: Rule>(rule: R, time: &ManualClock) -> Arc<Gate<R>> {
    let builder = Gate::builder(rule).queue(Queue::fifo(1000));
    Arc::new(builder.clock(time.clock()).build())
}

pub(crate) fn all(members: &[Arc<dyn Limiter>]) -> All {
    All::new(members.iter().cloned())
}

pub(crate) fn per_second(units: u64) -> TokenBucket {
    TokenBucket::greedy(Quota::per_second(units))
}
