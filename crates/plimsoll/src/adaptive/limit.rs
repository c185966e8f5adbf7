use std::fmt;
use std::time::Duration;

use crate::learning::{Insight, Load, Sample};

/// An algorithm that computes a concurrency limit from samples of the work. [`Adaptive`](super::Adaptive) has an example.
///
/// A limit is a plain state machine: it owns no clock, takes no lock and starts no thread. Its
/// owner passes it one [`Sample`] for each piece of work that ended, in order, and reads the limit.
///
/// Samples come from the world: a latency may be 0 or hours, moments may step back, and there may be one
/// sample a day. The number must stay within the bounds of the algorithm all the same.
pub trait Limit: Send + fmt::Debug + 'static {
    /// The limit now, at least 1.
    fn limit(&self) -> u64;

    /// Learns from one piece of work.
    fn sample(&mut self, sample: &Sample);

    /// How often [`tick`](Self::tick) wants to be called while there is traffic, if at all.
    fn tick_every(&self) -> Option<Duration> {
        None
    }

    /// Learns from the passing of time.
    fn tick(&mut self, load: Load) {
        let _ = load;
    }

    /// The bound of the queue, for an algorithm that computes one. A
    /// [function of the user's](crate::GateBuilder::queue_size) counts in its place.
    fn queue_bound(&self) -> Option<u64> {
        None
    }

    /// What the algorithm measured and decided, for people and dashboards.
    fn insight(&self) -> Insight {
        Insight::default()
    }
}

/// What goes on in an adaptive limiter when the bound of its queue is computed. See
/// [`GateBuilder::queue_size`](crate::GateBuilder::queue_size).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct QueueContext {
    /// The limit that was just computed.
    pub limit: u64,
    /// How much was in flight when the last work ended, itself included.
    pub in_flight: u64,
    /// How much waited then.
    pub queued: u64,
    /// How long the last work took that was measured, if any was.
    pub latency: Option<Duration>,
}

impl QueueContext {
    pub(super) fn see(&mut self, limit: u64, load: Option<Load>, sample: Option<&Sample>) {
        self.limit = limit;
        if let Some(load) = load {
            (self.in_flight, self.queued) = (load.in_flight, load.queued);
        }
        if let Some(sample) = sample {
            self.latency = Some(sample.latency());
        }
    }
}
