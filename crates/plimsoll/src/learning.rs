//! What a gate and a rule that learns from the work it admits have to say to each other.
//!
//! Only the [adaptive](crate::adaptive) rule learns. The gate reaches it through one hidden method of
//! [`Rule`](crate::Rule), which for every other rule is a constant `None` that the compiler removes.

use std::time::Duration;

use crate::Moment;

/// A rule that learns.
pub trait Learning<S> {
    /// Starts with a queue of this bound; returns the bound to begin with.
    fn begin_queue(&self, bound: u32) -> u32;

    /// Whether work that begins in this tick of the machine's clock is timed.
    fn times(&self, tick: Moment) -> bool;

    /// How much of the work so far was timed, if not all of it was.
    fn timed(&self) -> Option<u64>;

    /// Learns from work that has ended, while `queued` waited; `untimed` was granted so far without being timed.
    /// Called after the permit was returned, with no lock held. Returns whether to [adjust](Self::adjust).
    ///
    /// [`Sample::refused`] and [`Sample::weight`] are filled in here.
    fn learn(&self, sample: Sample, untimed: u64, queued: u32) -> bool;

    /// Hears of a demand that was refused for want of room, at once or after waiting. Called very often, and with
    /// locks held.
    fn refused(&self);

    /// When the next [`tick`](Self::tick) is due. It comes with the first traffic at or after that.
    fn tick_at(&self) -> Moment;

    /// Learns from the passing of time. Called with no lock held. Returns whether to [adjust](Self::adjust).
    fn tick(&self, load: Load) -> bool;

    /// Makes what was learned the limit, and the bound of the queue if there is one. Called behind the lock of the
    /// gate.
    fn adjust(&self, state: &mut S, bound: Option<&mut u32>);
}

/// One piece of work that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When it was let in. Time spent waiting for that is not part of its latency.
    pub start: Moment,
    /// When it ended.
    pub end: Moment,
    /// How much was in flight, itself included.
    pub in_flight: u32,
    /// Whether it failed because there was too much work.
    pub overload: bool,
    /// Whether anything was refused since the sample before.
    pub refused: bool,
    /// For how much work it stands, itself included. It is 1 unless so much work ends that not all of it is timed.
    pub weight: u32,
}

impl Sample {
    /// How long the work took; 0 if the clock stepped back.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// What goes on in a limiter at a [tick](crate::adaptive::Limit::tick).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The moment of the tick.
    pub now: Moment,
    /// How much is in flight.
    pub in_flight: u32,
    /// How much waits.
    pub queued: u32,
}

impl Load {
    #[inline]
    pub(crate) fn of(now: Moment, in_use: u64, queued: u64) -> Self {
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            now,
            in_flight: count(in_use),
            queued: count(queued),
        }
    }
}
