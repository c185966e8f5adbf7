use std::fmt;
use std::time::Duration;

use crate::learning::{Insight, Load, Sample};

/// An algorithm that computes a concurrency limit from samples of the work. [`Adaptive`](super::Adaptive) has an example.
///
/// An algorithm is a plain state machine: it owns no clock, takes no lock and starts no thread. Its owner passes it one
/// [`Sample`] for each piece of finished work, in order, and reads the limit.
///
/// Samples are measurements: a latency may be 0 or hours, moments may step back, and there may be only one sample a
/// day. The limit must stay within the bounds of the algorithm in all these cases.
pub trait Limit: Send + fmt::Debug + 'static {
    /// Returns the current limit, at least 1.
    fn limit(&self) -> u64;

    /// Learns from the sample of one permit.
    fn sample(&mut self, sample: &Sample);

    /// Returns the interval at which [`tick`](Self::tick) is called while there is traffic. Default: `None`, never.
    fn tick_every(&self) -> Option<Duration> {
        None
    }

    /// Learns from the passing of time. The default does nothing.
    fn tick(&mut self, load: Load) {
        let _ = load;
    }

    /// Returns the bound of the queue, for an algorithm that computes one. A function set by
    /// [`GateBuilder::queue_size`](crate::GateBuilder::queue_size) takes precedence.
    fn queue_bound(&self) -> Option<u64> {
        None
    }

    /// Returns the measurements and the latest decision of the algorithm, for operators and dashboards.
    fn insight(&self) -> Insight {
        Insight::default()
    }
}

/// The inputs from which an adaptive limiter computes its queue bound. See
/// [`GateBuilder::queue_size`](crate::GateBuilder::queue_size).
///
/// ```
/// use plimsoll::adaptive::{Adaptive, QueueContext, Verdict};
/// use plimsoll::{Gate, Queue};
///
/// /// As many waiters as permits, and none while the latency is above a second.
/// fn bound(now: &QueueContext) -> u64 {
///     let slow = now.latency.is_some_and(|latency| latency.as_secs() >= 1);
///     if slow { 0 } else { now.limit }
/// }
///
/// let gate = Gate::builder(Adaptive::new(Verdict::new())).queue(Queue::fifo(20)).queue_size(bound).build();
/// # assert!(gate.try_acquire(1).is_ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct QueueContext {
    /// The limit that was just computed.
    pub limit: u64,
    /// The number of permits in flight when the last work ended, its own included.
    pub in_flight: u64,
    /// The sum of the costs that waited at that time.
    pub queued: u64,
    /// The latency of the last timed work.
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
