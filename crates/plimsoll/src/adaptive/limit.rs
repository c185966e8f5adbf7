use std::fmt;
use std::time::Duration;

use crate::learning::{Load, Sample};

/// An algorithm that finds a concurrency limit by watching how work fares.
///
/// A limit is a plain state machine: it owns no clock, takes no lock and starts nothing. Whoever holds it
/// feeds it one [`Sample`] for each piece of work that ended, in order, and reads the number.
///
/// Samples come from the world: a latency may be 0 or hours, moments may step back, and there may be one
/// sample a day. The number must stay within the bounds of the algorithm all the same.
pub trait Limit: Send + fmt::Debug + 'static {
    /// The limit now, at least 1.
    fn limit(&self) -> u32;

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

    /// How much may wait, for an algorithm that has its own idea of that.
    fn queue_bound(&self) -> Option<u32> {
        None
    }

    /// What the algorithm makes of what it saw, for people who look.
    fn insight(&self) -> Insight {
        Insight::default()
    }
}

/// What an algorithm made of what it saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Insight {
    /// The latency it takes for that of a server without a queue.
    pub baseline: Option<Duration>,
    /// The latency it saw last.
    pub signal: Option<Duration>,
    /// What it did last, and why, in a few words.
    pub decision: &'static str,
}

/// What an adaptive limit has come to, for people who look. See [`Gate::insight`](crate::Gate::insight).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Findings {
    /// The limit.
    pub limit: u32,
    /// How much may wait, if there is a queue.
    pub queue: Option<u32>,
    /// How many samples were lost: because more work ended while the algorithm computed than there is room to remember, or
    /// because it panicked.
    pub lost: u64,
    /// What the algorithm makes of it.
    pub insight: Insight,
}
