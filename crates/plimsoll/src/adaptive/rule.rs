use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::learner::Learner;
use super::pace::Pace;
use super::{Insight, Limit, QueueContext};
use crate::learning::{Learning, Load, Sample};
use crate::{
    Carry, Concurrency, Gate, GateBuilder, Moment, Packed, PackedTake, Refusal, Rule, Slots,
};

/// A concurrency limit that an algorithm adjusts.
///
/// It is a [`Concurrency`] limit that a [`Limit`] changes, based on measurements of the work. Report the outcome of the
/// work with [`Permit::finish`](crate::Permit::finish): a permit that is dropped without it yields no sample, and
/// without samples the limit does not change.
///
/// ```
/// use plimsoll::adaptive::{Adaptive, Limit, Sample};
/// use plimsoll::{Gate, Outcome, Queue};
///
/// /// One more for each success, half for each failure.
/// #[derive(Debug)]
/// struct Careful(u64);
///
/// impl Limit for Careful {
///     fn limit(&self) -> u64 {
///         self.0
///     }
///
///     fn sample(&mut self, sample: &Sample) {
///         self.0 = if sample.overload { (self.0 / 2).max(1) } else { self.0 + 1 };
///     }
/// }
///
/// let gate = Gate::builder(Adaptive::new(Careful(10))).queue(Queue::fifo(20)).build();
/// gate.try_acquire(1)?.finish(Outcome::Success);
/// assert_eq!(gate.snapshot().limit(), 11);
/// gate.try_acquire(1)?.finish(Outcome::Overload);
/// assert_eq!(gate.snapshot().limit(), 5);
/// drop(gate.try_acquire(1)?);
/// assert_eq!(gate.snapshot().limit(), 5);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// # The queue
///
/// The bound of the queue, if there is one, follows the limit: it is the square root of the limit, rounded up, and at
/// least the initial bound. An algorithm may [compute another](Limit::queue_bound);
/// [`GateBuilder::queue_size`](crate::GateBuilder::queue_size) sets a function that takes precedence over both. When
/// the bound falls, current waiters stay.
///
/// # The clock
///
/// A gate with this rule uses [`Clock::precise`](crate::Clock::precise) by default: on a clock that ticks once per
/// millisecond, shorter work would have a latency of 0.
///
/// # For each key
///
/// A [`Keyed`](crate::Keyed) limit can be adaptive if the algorithm is [`Clone`]. Each key starts with a copy of it and
/// learns on its own, so that a slow key lowers only its own limit. A key that has learned is retained for ten minutes
/// after its last work, or longer if its place is not needed; after that it starts again.
///
/// ```
/// use plimsoll::adaptive::{Adaptive, Aimd};
/// use plimsoll::{Keyed, Outcome};
///
/// let aimd = Aimd::builder().min(1).initial(10).build()?;
/// let per_backend: Keyed<String, _> = Keyed::builder(Adaptive::new(aimd)).max_keys(1000).build();
/// per_backend.try_acquire("slow", 1)?.finish(Outcome::Overload);
/// assert_eq!(per_backend.standing("slow").limit, 9);
/// assert_eq!(per_backend.standing("fast").limit, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A permit of [`All`](crate::All) carries the moment of its first member's clock. Put the adaptive limit first, or use
/// one precise clock for all members.
#[must_use]
pub struct Adaptive<L> {
    slots: Concurrency,
    /// The bound that was set last. Changed under the gate's lock.
    bound: AtomicU64,
    /// Whether a demand was refused since the last sample.
    refused: AtomicBool,
    /// The second of the last sample; 0 if there was none.
    learned_at: AtomicU64,
    pace: Pace,
    learner: Learner<L>,
}

impl<L: Limit> Adaptive<L> {
    /// Creates a limit that follows `limit`. A limit of 0 is raised to 1.
    pub fn new(limit: L) -> Self {
        Self {
            slots: Concurrency::new(limit.limit().max(1)),
            bound: AtomicU64::new(0),
            refused: AtomicBool::new(false),
            learned_at: AtomicU64::new(0),
            pace: Pace::default(),
            learner: Learner::new(limit),
        }
    }

    /// Clamps the limit of the algorithm to these bounds.
    pub(super) fn within(mut self, least: u64, most: u64) -> Self {
        self.learner.set_bounds(least, most);
        self.slots = Concurrency::new(self.learner.decision().limit);
        self
    }

    pub(super) fn min_queue(mut self, bound: u64) -> Self {
        self.learner.set_min_queue(bound);
        self
    }

    fn queue_size(mut self, size: impl Fn(&QueueContext) -> u64 + Send + Sync + 'static) -> Self {
        self.learner.set_queue_size(Arc::new(size));
        self
    }

    fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed) && self.refused.swap(false, Ordering::Relaxed)
    }
}

/// The time for which a key that has learned is retained after its last work.
const KEPT: Duration = Duration::from_secs(600);
/// The last work is noted no more often than this, in nanoseconds.
const NOTED_EVERY: u64 = 1_000_000_000;

/// A copy starts with the algorithm in its current state and no permits taken, and learns on its own.
impl<L: Limit + Clone> Clone for Adaptive<L> {
    fn clone(&self) -> Self {
        let learner = self.learner.another();
        Self {
            slots: Concurrency::new(learner.decision().limit),
            bound: AtomicU64::new(self.bound.load(Ordering::Relaxed)),
            refused: AtomicBool::new(false),
            learned_at: AtomicU64::new(0),
            pace: Pace::default(),
            learner,
        }
    }
}

impl<L: Limit> Rule for Adaptive<L> {
    type State = Slots;

    type Fast = Self;

    const RETURNS_PERMITS: bool = true;

    #[inline]
    fn limit(&self) -> u64 {
        self.slots.limit()
    }

    fn begin(&mut self, start: Moment) {
        self.learner.begin(start);
    }

    fn fresh(&self, now: Moment) -> Slots {
        self.slots.fresh(now)
    }

    #[inline]
    fn take(&self, state: &mut Slots, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.slots.take(state, now, cost)
    }

    fn occupy(&self, state: &mut Slots, now: Moment, cost: u64) {
        self.slots.occupy(state, now, cost);
    }

    fn available(&self, state: &Slots, now: Moment) -> u64 {
        self.slots.available(state, now)
    }

    #[inline]
    fn in_use(&self, state: &Slots, now: Moment) -> u64 {
        self.slots.in_use(state, now)
    }

    fn refund(&self, state: &mut Slots, now: Moment, taken: Moment, cost: u64) {
        self.slots.refund(state, now, taken, cost);
    }

    fn add(&self, state: &mut Slots, now: Moment, amount: u64) {
        self.slots.add(state, now, amount);
    }

    fn full_at(&self, state: &Slots, now: Moment) -> Option<Moment> {
        self.slots.full_at(state, now)
    }

    fn evictable_from(&self, state: &Slots, now: Moment) -> Option<Moment> {
        let unused_from = self.slots.full_at(state, now)?;
        match self.learned_at.load(Ordering::Relaxed) {
            0 => Some(unused_from),
            learned_at => Some(unused_from.max(Moment::from_nanos(learned_at).plus(KEPT))),
        }
    }

    fn adopt(&self, old: &Self, state: &Slots, now: Moment, carry: Carry) -> Slots {
        self.slots.adopt(&old.slots, state, now, carry)
    }

    #[inline(always)]
    fn learning(&self) -> Option<&dyn Learning<Slots>> {
        Some(self)
    }
}

/// The same as the underlying concurrency limit's.
impl<L: Limit> Packed<Self> for Adaptive<L> {
    #[inline]
    fn pack(rule: &Self, state: &Slots, now: Moment) -> Option<u64> {
        Concurrency::pack(&rule.slots, state, now)
    }

    #[inline]
    fn unpack(rule: &Self, word: u64, now: Moment) -> Slots {
        Concurrency::unpack(&rule.slots, word, now)
    }

    #[inline]
    fn take_packed(rule: &Self, word: u64, now: Moment, cost: u64) -> PackedTake {
        Concurrency::take_packed(&rule.slots, word, now, cost)
    }
}

impl<L: Limit> Learning<Slots> for Adaptive<L> {
    fn begin_queue(&self, bound: u64) -> u64 {
        let bound = self.learner.start_queue(bound);
        self.bound.store(bound, Ordering::Relaxed);
        bound
    }

    #[inline]
    fn learn(&self, mut sample: Sample, untimed: u64, queued: u64) -> bool {
        sample.refused = self.was_refused();
        sample.weight = self.pace.weight(untimed);
        let now = sample.end.as_nanos().max(1);
        let noted = self.learned_at.load(Ordering::Relaxed);
        if now.wrapping_sub(noted) > NOTED_EVERY || noted == 0 {
            self.learned_at.store(now, Ordering::Relaxed);
        }
        let (decided, kept) = self.learner.learn(&sample, queued);
        if sample.refused && !kept {
            Learning::refused(self);
        }
        decided
    }

    #[inline]
    fn times(&self, tick: Moment) -> bool {
        self.pace.times(tick)
    }

    fn timed(&self) -> Option<u64> {
        self.pace.timed()
    }

    #[inline]
    fn refused(&self) {
        // Refusals come in bursts. Only the first after a sample has to write.
        if !self.refused.load(Ordering::Relaxed) {
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn tick_at(&self) -> Moment {
        self.learner.tick_at()
    }

    fn tick(&self, load: Load) -> bool {
        self.learner.tick(load)
    }

    fn adjust(&self, state: &mut Slots, bound: Option<&mut u64>) {
        // Read here, under the gate's lock: of several threads with a decision the last one applies the latest.
        let decision = self.learner.decision();
        self.slots.resize(state, decision.limit);
        // A bound that was set by hand stays until the next decision with another bound.
        if self.bound.swap(decision.queue, Ordering::Relaxed) != decision.queue
            && let Some(bound) = bound
        {
            *bound = decision.queue;
        }
    }

    fn insight(&self) -> (Insight, bool) {
        let (mut insight, decided) = self.learner.look();
        insight.lost = self.learner.lost();
        (insight, decided)
    }
}

impl<L: Limit> GateBuilder<Adaptive<L>> {
    /// Sets a function that computes the bound of the queue, for any algorithm. It replaces the square root of the
    /// limit and the bound that the algorithm [computes itself](Limit::queue_bound). The bound never falls below
    /// [`Settings::min_queue`](super::Settings).
    ///
    /// It is called with the current load whenever the algorithm has learned, so it should be quick. It must not call
    /// [`insight`](Gate::insight) of its own gate. If it panics the bound stays as it was.
    ///
    /// ```
    /// use plimsoll::adaptive::{Adaptive, LatencyGradient};
    /// use plimsoll::{Gate, Outcome, Queue};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// // Half the limit, or less while operators say so.
    /// let most = Arc::new(AtomicU64::new(100));
    /// let set = Arc::clone(&most);
    /// let gate = Gate::builder(Adaptive::new(LatencyGradient::default()))
    ///     .queue(Queue::fifo(20))
    ///     .queue_size(move |now| (now.limit / 2).min(set.load(Relaxed)))
    ///     .build();
    /// assert_eq!(gate.snapshot().queue_bound(), 20);
    /// gate.try_acquire(1)?.finish(Outcome::Success);
    /// assert_eq!(gate.snapshot().queue_bound(), 2);
    /// most.store(1, Relaxed);
    /// gate.try_acquire(1)?.finish(Outcome::Success);
    /// assert_eq!(gate.snapshot().queue_bound(), 1);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn queue_size(self, size: impl Fn(&QueueContext) -> u64 + Send + Sync + 'static) -> Self {
        self.map_rule(|rule| rule.queue_size(size))
    }
}

impl<L: Limit> Gate<Adaptive<L>> {
    /// Returns the current limit and the algorithm's latest measurements and decision.
    ///
    /// Use it for dashboards. Unlike `acquire`, the call waits while the algorithm computes.
    #[must_use]
    pub fn insight(&self) -> Insight {
        self.learned().unwrap_or_default()
    }
}

impl<L: Limit> fmt::Debug for Adaptive<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adaptive")
            .field("limit", &self.limit())
            .field("learner", &self.learner)
            .finish_non_exhaustive()
    }
}
