//! The interface between a gate and a rule that learns from the work it admits.
//!
//! Only the [adaptive](crate::adaptive) rule learns. The gate reaches it through one hidden method of
//! [`Rule`](crate::Rule), which for every other rule is a constant `None` that the compiler removes.

use std::time::Duration;

use crate::Moment;

/// A rule that learns.
pub trait Learning<S> {
    /// Starts with a queue of this bound; returns the bound to begin with.
    fn begin_queue(&self, bound: u64) -> u64;

    /// Whether work that begins in this tick of the machine's clock is timed.
    fn times(&self, tick: Moment) -> bool;

    /// How much of the work so far was timed, if not all of it was.
    fn timed(&self) -> Option<u64>;

    /// Learns from work that has ended, while `queued` waited; `untimed` was granted so far without being timed.
    /// Called after the permit was returned, with no lock held. Returns whether to [adjust](Self::adjust).
    ///
    /// [`Sample::refused`] and [`Sample::weight`] are filled in here.
    fn learn(&self, sample: Sample, untimed: u64, queued: u64) -> bool;

    /// Hears of a demand that was refused for want of room, at once or after waiting. Called very often, and with
    /// locks held.
    fn refused(&self);

    /// When the next [`tick`](Self::tick) is due. It comes with the first traffic at or after that.
    fn tick_at(&self) -> Moment;

    /// Learns from the passing of time. Called with no lock held. Returns whether to [adjust](Self::adjust).
    fn tick(&self, load: Load) -> bool;

    /// Makes what was learned the limit, and the bound of the queue if there is one. Called behind the lock of the
    /// gate.
    fn adjust(&self, state: &mut S, bound: Option<&mut u64>);

    /// What was learned, and whether there is something to [adjust](Self::adjust). The gate fills in the limit and the
    /// bound of the queue.
    fn insight(&self) -> (Insight, bool);
}

/// The measurement of one permit whose work has ended: what an adaptive [`Limit`](crate::adaptive::Limit) learns from.
///
/// A gate makes samples by itself, one for each permit that is [finished](crate::Permit::finish). Tests of an algorithm
/// make their own:
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{Aimd, Limit, Sample};
/// use std::time::Duration;
///
/// let mut limit = Aimd::builder().min(1).initial(30).build()?;
/// let sample = Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 20);
/// assert_eq!(sample.latency(), Duration::from_millis(10));
/// limit.sample(&sample);
/// limit.sample(&sample.overload(true));
/// assert_eq!(limit.limit(), 27);
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// When the permit was granted. Time spent in the queue is not part of the latency.
    pub start: Moment,
    /// When the work ended.
    pub end: Moment,
    /// How much was in flight when the work ended, itself included.
    pub in_flight: u64,
    /// Whether the work failed because there was too much of it.
    pub overload: bool,
    /// Whether any demand was refused since the sample before.
    pub refused: bool,
    /// How many pieces of work the sample stands for, itself included. It is 1 unless so much work ends that not all of
    /// it is timed.
    pub weight: u32,
}

impl Sample {
    /// A sample of work that was no overload, with a weight of 1, and with no demand refused before it.
    #[must_use]
    pub const fn new(start: Moment, end: Moment, in_flight: u64) -> Self {
        Self {
            start,
            end,
            in_flight,
            overload: false,
            refused: false,
            weight: 1,
        }
    }

    /// Sets [`overload`](Self#structfield.overload).
    #[must_use]
    pub const fn overload(mut self, overload: bool) -> Self {
        self.overload = overload;
        self
    }

    /// Sets [`refused`](Self#structfield.refused).
    #[must_use]
    pub const fn refused(mut self, refused: bool) -> Self {
        self.refused = refused;
        self
    }

    /// Sets [`weight`](Self#structfield.weight).
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// How long the work took; 0 if the clock stepped back.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The load of a limiter at a [tick](crate::adaptive::Limit::tick).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Load {
    /// The moment of the tick.
    pub now: Moment,
    /// How much is in flight.
    pub in_flight: u64,
    /// How much waits in the queue.
    pub queued: u64,
}

impl Load {
    /// So much is in flight and so much waits, at this moment.
    #[must_use]
    pub const fn new(now: Moment, in_flight: u64, queued: u64) -> Self {
        Self {
            now,
            in_flight,
            queued,
        }
    }

    #[inline]
    pub(crate) fn of(now: Moment, in_use: u64, queued: u64) -> Self {
        Self::new(now, in_use, queued)
    }
}

/// What an adaptive limit has come to, and why. See [`Gate::insight`](crate::Gate::insight).
///
/// An algorithm fills in what it knows, the last four fields; the limiter that runs it, the others.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll::adaptive::{Adaptive, Verdict};
///
/// let insight = Gate::new(Adaptive::new(Verdict::new())).insight();
/// assert_eq!((insight.limit, insight.queue, insight.lost), (20, None, 0));
/// assert_eq!((insight.baseline, insight.decision), (None, "start"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Insight {
    /// The limit.
    pub limit: u64,
    /// The bound of the queue, if there is one.
    pub queue: Option<u64>,
    /// How many samples were lost: because more work ended while the algorithm computed than there is room to
    /// remember, or because it panicked.
    pub lost: u64,
    /// The latency it takes for that of a server without a queue.
    pub baseline: Option<Duration>,
    /// The latency it saw last.
    pub signal: Option<Duration>,
    /// What it did last, and why, in a few words.
    pub decision: &'static str,
    /// What it assumes and cannot know, in a few words: that the limit is at its maximum, that the baseline is
    /// doubtful, that others may share the server.
    pub doubt: Option<&'static str>,
}

impl Insight {
    /// What an algorithm says that did this last.
    #[must_use]
    pub fn new(decision: &'static str) -> Self {
        Self {
            decision,
            ..Self::default()
        }
    }
}
