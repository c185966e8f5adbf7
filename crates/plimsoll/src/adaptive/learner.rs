//! The thread that runs the algorithm, and the samples of the other threads.
//!
//! A thread that finishes work never waits for the algorithm. If the algorithm is free the thread runs it; otherwise it
//! leaves the sample in the inbox and continues. A thread that has run the algorithm takes the samples in the inbox,
//! and checks once more when the algorithm is free again. So does a thread that has left a sample. A sample that both
//! of them miss waits for the end of the next work.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, TryLockError};
use std::time::Duration;

use super::inbox::{Inbox, PLACES};
use super::limit::QueueContext;
use super::range::root_rounded_up;
use super::{Insight, Limit, Load, Sample};
use crate::Moment;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// The number of times that a thread that has run the algorithm runs it again for samples of other threads.
const FAVOURS: u32 = 4;

/// The maximum number of missed ticks that are repeated.
const MISSED: u64 = 8;

/// Computes the bound of the queue.
type QueueSize = Arc<dyn Fn(&QueueContext) -> u64 + Send + Sync>;

/// A value on its own cache lines.
#[repr(align(64))]
struct Apart<T>(T);

pub(super) struct Learner<L> {
    /// Written with every sample, so apart from the fields that other threads only read.
    algorithm: Apart<Mutex<L>>,
    /// The limit that was decided last: written by the thread that runs the algorithm.
    limit: AtomicU64,
    /// The bound of the queue that was decided with it. A thread that reads the two while they are written soon reads
    /// them again: the writer has the gate adjusted after this.
    queue: AtomicU64,
    /// When the next tick is due.
    tick_at: AtomicU64,
    inbox: Apart<Inbox>,
    lost: AtomicU64,
    queue_size: Option<QueueSize>,
    /// The load that `queue_size` saw last. Written by the thread that runs the algorithm.
    seen: Mutex<QueueContext>,
    /// The minimum bound of the queue.
    min_queue: u64,
    /// The initial bound of the queue, and the minimum of its default.
    first_queue: OnceLock<u64>,
    /// The minimum and maximum to which the algorithm's limit is clamped.
    bounds: (u64, u64),
}

/// The decision of an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decision {
    pub(super) limit: u64,
    pub(super) queue: u64,
}

impl<L: Limit> Learner<L> {
    pub(super) fn new(algorithm: L) -> Self {
        Self {
            limit: AtomicU64::new(algorithm.limit().max(1)),
            queue: AtomicU64::new(algorithm.queue_bound().unwrap_or(0)),
            algorithm: Apart(Mutex::new(algorithm)),
            tick_at: AtomicU64::new(Moment::NEVER.as_nanos()),
            inbox: Apart(Inbox::new()),
            lost: AtomicU64::new(0),
            queue_size: None,
            seen: Mutex::new(QueueContext::default()),
            min_queue: 0,
            first_queue: OnceLock::new(),
            bounds: (1, u64::MAX),
        }
    }

    /// A learner with a copy of the algorithm in its current state and the same settings.
    pub(super) fn another(&self) -> Self
    where
        L: Clone,
    {
        let mut another = Self::new(lock(&self.algorithm.0).clone());
        another.queue_size.clone_from(&self.queue_size);
        another.min_queue = self.min_queue;
        another.first_queue = self.first_queue.clone();
        another.set_bounds(self.bounds.0, self.bounds.1);
        another
    }

    /// Clamps the limit of the algorithm to these bounds.
    pub(super) fn set_bounds(&mut self, least: u64, most: u64) {
        self.bounds = (least, most);
        let Decision { limit, queue } = self.decision();
        let limit = limit.clamp(least, most);
        self.publish(Decision { limit, queue });
    }

    /// Computes the bound of the queue by `size` instead of the algorithm.
    pub(super) fn set_queue_size(&mut self, size: QueueSize) {
        self.queue_size = Some(size);
    }

    /// Sets the minimum bound of the queue.
    pub(super) fn set_min_queue(&mut self, bound: u64) {
        self.min_queue = bound;
        self.first_queue = OnceLock::from(bound);
    }

    /// Starts with this bound, unless the algorithm computes its own.
    pub(super) fn start_queue(&self, bound: u64) -> u64 {
        self.first_queue.get_or_init(|| bound);
        let own = match self.queue_size {
            Some(_) => None,
            None => lock(&self.algorithm.0).queue_bound(),
        };
        let queue = own.unwrap_or(bound);
        let limit = self.decision().limit;
        self.publish(Decision { limit, queue });
        queue
    }

    /// Counts ticks from `start` on.
    pub(super) fn begin(&self, start: Moment) {
        let every = lock(&self.algorithm.0).tick_every();
        self.set_tick(after(start, every));
    }

    #[inline]
    pub(super) fn decision(&self) -> Decision {
        Decision {
            limit: self.limit.load(Ordering::Acquire),
            queue: self.queue.load(Ordering::Acquire),
        }
    }

    #[inline]
    pub(super) fn tick_at(&self) -> Moment {
        Moment::from_nanos(self.tick_at.load(Ordering::Relaxed))
    }

    fn publish(&self, decision: Decision) {
        self.limit.store(decision.limit, Ordering::Release);
        self.queue.store(decision.queue, Ordering::Release);
    }

    fn set_tick(&self, at: Moment) {
        self.tick_at.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// The algorithm, if no other thread runs it.
    #[inline]
    fn hold(&self) -> Option<MutexGuard<'_, L>> {
        match self.algorithm.0.try_lock() {
            Ok(held) => Some(held),
            // Only the algorithm's own code, such as `insight`, can unwind through here.
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Learns from a sample, now or later. Returns whether there is a new decision, and whether the sample was stored.
    #[inline]
    pub(super) fn learn(&self, sample: &Sample, queued: u64) -> (bool, bool) {
        let load = Load {
            now: sample.end,
            in_flight: sample.in_flight,
            queued,
        };
        if let Some(held) = self.hold() {
            return (self.run(held, Some(load), Some(sample)), true);
        }
        if !self.inbox.0.put(sample) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return (false, false);
        }
        // The thread that ran the algorithm may have looked into the inbox just before.
        let decided = self.hold().is_some_and(|held| self.run(held, None, None));
        (decided, true)
    }

    /// Learns from the passing of time. Returns whether there is a new decision.
    pub(super) fn tick(&self, load: Load) -> bool {
        self.hold()
            .is_some_and(|held| self.run(held, Some(load), None))
    }

    /// Runs the algorithm, on the sample of the caller and on those in the inbox.
    #[inline]
    fn run<'a>(
        &'a self,
        mut held: MutexGuard<'a, L>,
        load: Option<Load>,
        mut sample: Option<&Sample>,
    ) -> bool {
        let mut decided = self.run_once(&mut held, load, sample.take());
        for _ in 0..FAVOURS {
            drop(held);
            if self.inbox.0.is_empty() {
                break;
            }
            held = match self.hold() {
                Some(held) => held,
                None => break,
            };
            decided |= self.run_once(&mut held, None, None);
        }
        decided
    }

    /// Catches a panic of the algorithm: the finished work did not cause it. The limit stays as it was.
    #[inline]
    fn run_once(&self, algorithm: &mut L, load: Option<Load>, sample: Option<&Sample>) -> bool {
        let run = AssertUnwindSafe(|| self.feed(algorithm, load, sample));
        catch_unwind(run).unwrap_or_else(|_| {
            self.lost.fetch_add(1, Ordering::Relaxed);
            false
        })
    }

    #[inline]
    fn feed(&self, algorithm: &mut L, load: Option<Load>, sample: Option<&Sample>) -> bool {
        if !self.inbox.0.is_empty() {
            self.empty_inbox(algorithm);
        }
        if let Some(load) = load
            && load.now >= self.tick_at()
        {
            self.make_up(algorithm, load);
        }
        if let Some(sample) = sample {
            algorithm.sample(sample);
        }
        self.decide(algorithm, load, sample)
    }

    #[cold]
    fn empty_inbox(&self, algorithm: &mut L) {
        // At most as many as fit, however fast other threads add samples.
        for _ in 0..PLACES {
            let Some(sample) = self.inbox.0.take() else {
                break;
            };
            algorithm.sample(&sample);
        }
    }

    /// Ticks for every moment at which a tick was due, up to [`MISSED`] of them.
    #[cold]
    fn make_up(&self, algorithm: &mut L, load: Load) {
        let mut due = self.tick_at();
        // Set before any code that may panic runs.
        self.set_tick(after(load.now, algorithm.tick_every()));
        let Some(every) = algorithm.tick_every().map(nanos) else {
            return;
        };
        let missed = load.now.nanos_since(due) / every;
        due = due.plus_nanos(every.saturating_mul(missed.saturating_sub(MISSED - 1)));
        while due <= load.now && due.is_known() {
            algorithm.tick(Load { now: due, ..load });
            due = after(due, algorithm.tick_every());
        }
        self.set_tick(due);
    }

    #[inline]
    fn decide(&self, algorithm: &L, load: Option<Load>, sample: Option<&Sample>) -> bool {
        let before = self.decision();
        let limit = algorithm.limit().clamp(self.bounds.0, self.bounds.1);
        let queue = match (&self.queue_size, algorithm.queue_bound()) {
            (Some(size), _) => self.computed_queue(size, before.queue, (limit, load, sample)),
            (None, Some(bound)) => bound,
            (None, None) if limit == before.limit => before.queue,
            (None, None) => self.default_queue(limit),
        };
        let decision = Decision { limit, queue };
        if decision == before {
            return false;
        }
        self.publish(decision);
        true
    }

    /// The bound by the user's function; `before` if that panics.
    #[inline(never)]
    fn computed_queue(
        &self,
        size: &QueueSize,
        before: u64,
        (limit, load, sample): (u64, Option<Load>, Option<&Sample>),
    ) -> u64 {
        let mut seen = lock(&self.seen);
        seen.see(limit, load, sample);
        let context = *seen;
        drop(seen);
        let computed = catch_unwind(AssertUnwindSafe(|| size(&context)));
        computed.map_or(before, |bound| bound.max(self.min_queue))
    }

    #[cold]
    fn default_queue(&self, limit: u64) -> u64 {
        let least = self.first_queue.get().copied().unwrap_or(0);
        least.max(root_rounded_up(limit))
    }

    /// The algorithm's measurements so far, and whether there is a new decision. Waits for the thread that runs the
    /// algorithm.
    pub(super) fn look(&self) -> (Insight, bool) {
        let mut held = lock(&self.algorithm.0);
        let decided = !self.inbox.0.is_empty() && self.run_once(&mut held, None, None);
        (held.insight(), decided)
    }

    /// The number of samples that did not reach the algorithm, or made it panic.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// At least 1, so that ticks advance.
fn nanos(every: Duration) -> u64 {
    crate::moment::saturating_nanos(every).max(1)
}

fn after(moment: Moment, every: Option<Duration>) -> Moment {
    every.map_or(Moment::NEVER, |every| moment.plus_nanos(nanos(every)))
}

impl<L: Limit> fmt::Debug for Learner<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Learner");
        if let Some(algorithm) = self.hold() {
            debug.field("algorithm", &*algorithm);
        }
        debug
            .field("decision", &self.decision())
            .finish_non_exhaustive()
    }
}
