//! The interface between a gate and a rule that learns from the work it admits.
//!
//! Only the [adaptive](crate::adaptive) rule learns. The gate reaches it through one hidden method of
//! [`Rule`](crate::Rule), which for every other rule is a constant `None` that the compiler removes.

use std::time::Duration;

use crate::Moment;

/// A rule that learns.
pub trait Learning<S> {
    /// Starts with a queue of this bound; returns the initial bound.
    fn begin_queue(&self, bound: u64) -> u64;

    /// Returns whether work that starts in this tick of the machine's clock is timed.
    fn times(&self, tick: Moment) -> bool;

    /// Returns the number of timed permits, if not all were timed.
    fn timed(&self) -> Option<u64>;

    /// Learns from work that has ended, while `queued` waited; `untimed` permits were granted so far without being
    /// timed. Called after the permit was returned, with no lock held. Returns whether to [adjust](Self::adjust).
    ///
    /// [`Sample::refused`] and [`Sample::weight`] are filled in here.
    fn learn(&self, sample: Sample, untimed: u64, queued: u64) -> bool;

    /// Reports a demand that was refused for lack of room, at once or after waiting. It is called very often, and with
    /// locks held.
    fn refused(&self);

    /// Returns the moment of the next [`tick`](Self::tick). It comes with the first traffic at or after that.
    fn tick_at(&self) -> Moment;

    /// Learns from the passing of time. Called with no lock held. Returns whether to [adjust](Self::adjust).
    fn tick(&self, load: Load) -> bool;

    /// Applies the learned limit, and the bound of the queue if there is one. Called under the lock of the gate.
    fn adjust(&self, state: &mut S, bound: Option<&mut u64>);

    /// Returns the measurements, and whether there is something to [adjust](Self::adjust). The gate fills in the limit
    /// and the bound of the queue.
    fn insight(&self) -> (Insight, bool);
}

/// The measurement of one permit after its work: the input of an adaptive [`Limit`](crate::adaptive::Limit).
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sample {
    /// The moment of the grant. Time spent in the queue is not part of the latency.
    pub start: Moment,
    /// The moment at which the work ended.
    pub end: Moment,
    /// The number of permits in flight when the work ended, its own included.
    pub in_flight: u64,
    /// Whether the work failed because of overload.
    pub overload: bool,
    /// Whether a demand was refused since the previous sample.
    pub refused: bool,
    /// The number of permits that the sample represents, its own included. It is above 1 at high rates, where not every
    /// permit is timed.
    pub weight: u32,
}

impl Sample {
    /// Creates a sample of successful work, with a weight of 1, and with no demand refused before it.
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

    /// Returns the latency of the work; 0 if the clock stepped back.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The load of a limiter at a [tick](crate::adaptive::Limit::tick).
///
/// ```
/// use plimsoll::Moment;
/// use plimsoll::adaptive::{LatencyGradient, Limit, Load, Sample};
///
/// let mut limit = LatencyGradient::default();
/// limit.sample(&Sample::new(Moment::ORIGIN, Moment::from_nanos(10_000_000), 5));
/// // At the tick all 5 permits are in flight, and 2 demands wait: the limit grows by 2.
/// limit.tick(Load::new(Moment::from_nanos(500_000_000), 5, 2));
/// assert_eq!(limit.limit(), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Load {
    /// The moment of the tick.
    pub now: Moment,
    /// The number of permits in flight.
    pub in_flight: u64,
    /// The sum of the costs that wait in the queue.
    pub queued: u64,
}

impl Load {
    /// Returns the load at `now`.
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

/// The current limit of an adaptive limiter, and the reasons for it. See [`Gate::insight`](crate::Gate::insight).
///
/// The algorithm fills in the last four fields; the limiter that runs it fills in the others.
///
/// ```
/// use plimsoll::Gate;
/// use plimsoll::adaptive::{Adaptive, Verdict};
///
/// let insight = Gate::new(Adaptive::new(Verdict::new())).insight();
/// assert_eq!((insight.limit, insight.queue, insight.lost), (20, None, 0));
/// assert_eq!((insight.baseline, insight.decision), (None, "start"));
/// ```
///
/// With the feature `serde` it implements `Serialize`, but not `Deserialize`: its texts are `&'static str`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Insight {
    /// The limit.
    pub limit: u64,
    /// The bound of the queue, if there is one.
    pub queue: Option<u64>,
    /// The number of lost samples: more work ended while the algorithm computed than the inbox holds, or the algorithm
    /// panicked.
    pub lost: u64,
    /// The estimated latency of a server without a queue.
    pub baseline: Option<Duration>,
    /// The latest measured latency.
    pub signal: Option<Duration>,
    /// The latest decision and its reason, in a few words.
    pub decision: &'static str,
    /// An assumption that the algorithm cannot verify, in a few words, such as that the limit is at its maximum, the
    /// baseline is doubtful, or the server may be shared.
    pub doubt: Option<&'static str>,
}

impl Insight {
    /// Creates an insight with this decision.
    #[must_use]
    pub fn new(decision: &'static str) -> Self {
        Self {
            decision,
            ..Self::default()
        }
    }
}
