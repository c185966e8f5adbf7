//! The part that all ambient limiters share: a gauge that measures, and its last answer in an atomic word.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, InvalidLimit, Moment, Outcome, Permit, Queue, Reason,
    Shareable, Snapshot, Source,
};

use crate::SourceError;
use crate::answer::{Answer, HARD, NORMAL, SOFT, UNKNOWN};
use crate::room::{Room, room};

/// The level of memory usage, by the limits of a [`MemoryLimiter`](crate::MemoryLimiter).
///
/// ```
/// use plimsoll::ManualClock;
/// use plimsoll_ambient::{Amount, Level, MemoryLimiter, MemoryReading, Sampler};
///
/// let sampler = Sampler::new(ManualClock::new().clock());
/// let level = |used| {
///     let memory = MemoryLimiter::builder(Amount::Bytes(100)) // a spike of 20
///         .source(move || Ok(MemoryReading { used, total: None }))
///         .build(&sampler);
///     memory.map(|memory| memory.level())
/// };
/// assert_eq!(level(79)?, Level::Normal);
/// assert_eq!(level(80)?, Level::Soft);
/// assert_eq!(level(100)?, Level::Hard);
/// # Ok::<(), plimsoll_ambient::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Level {
    /// Below the soft limit: new work is admitted.
    Normal,
    /// At or above the soft limit, below the hard limit: no new work is admitted, and running work has the spike to
    /// finish in.
    Soft,
    /// At or above the hard limit: the spike is used up, because running work grew by more than expected between two
    /// samples.
    Hard,
}

/// The answer of a limiter while its last good sample is too old and new ones fail.
///
/// A sample is valid for two check intervals, so a single failed measurement changes nothing. The error is in
/// `last_error` of the limiter. With [`Refuse`](Self::Refuse), waiters stay in its queue meanwhile.
///
/// ```
/// use plimsoll::{ManualClock, Reason};
/// use plimsoll_ambient::{Amount, MemoryLimiter, MemoryReading, Sampler, SourceError, WhenUnknown};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let sampler = Sampler::new(time.clock());
/// let mut fails = false;
/// let flaky = move || match std::mem::replace(&mut fails, true) {
///     false => Ok(MemoryReading { used: 10, total: None }),
///     true => Err(SourceError::new("out of order")),
/// };
/// let memory = MemoryLimiter::builder(Amount::Bytes(100))
///     .source(flaky)
///     .when_unknown(WhenUnknown::Refuse)
///     .build(&sampler)?;
/// assert!(memory.check_saturation().is_ok()); // the first sample succeeded
///
/// time.advance(Duration::from_secs(3)); // it is valid for two intervals of 1 s
/// let denied = memory.check_saturation().unwrap_err();
/// assert_eq!(denied.reason(), Reason::Unavailable);
/// # Ok::<(), plimsoll_ambient::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum WhenUnknown {
    /// Refuses, with the reason [`Unavailable`](Reason::Unavailable). The default: a limiter that cannot measure
    /// protects the machine.
    #[default]
    Refuse,
    /// Admits: a limiter that cannot measure does not stop the service.
    Admit,
}

/// Measures, and compares with the limits. Never called concurrently.
pub(crate) trait Gauge: Send {
    fn measure(&mut self, now: Moment) -> Result<Level, SourceError>;
}

/// The number of intervals for which a sample is valid, so that one may be late without a caller having to measure.
const INTERVALS: u64 = 2;

pub(crate) struct Watch {
    clock: Clock,
    answer: Arc<Answer>,
    interval: u64,
    /// The queue, if there is one.
    room: Option<Room>,
    /// The refusal while saturated, with the name of the limiter.
    saturated: Denied,
    measuring: Mutex<Measuring>,
    me: Weak<Self>,
}

struct Measuring {
    gauge: Box<dyn Gauge>,
    level: Level,
    tried_at: Moment,
    succeeded_at: Moment,
    error: Option<SourceError>,
}

/// The settings of all ambient limiters.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: Option<String>,
    pub(crate) interval: Duration,
    pub(crate) when_unknown: WhenUnknown,
    pub(crate) queue: Option<Queue>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: None,
            interval: Duration::from_secs(1),
            when_unknown: WhenUnknown::Refuse,
            queue: None,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), InvalidLimit> {
        if self.interval.is_zero() {
            return Err(InvalidLimit::new(
                "check_interval",
                "0ns",
                "a longer time than that",
            ));
        }
        Ok(())
    }
}

impl Watch {
    /// Watches `gauge`, which measured `level` at `now`.
    pub(crate) fn new(
        settings: &Settings,
        clock: Clock,
        gauge: Box<dyn Gauge>,
        (now, level): (Moment, Level),
    ) -> Arc<Self> {
        let interval = u64::try_from(settings.interval.as_nanos()).unwrap_or(u64::MAX);
        let saturated = Denied::new(Reason::Saturated);
        let admits_unknown = settings.when_unknown == WhenUnknown::Admit;
        let stale_at = stale_from(now, interval);
        let answer = Arc::new(Answer::new(level as u8, stale_at, admits_unknown));
        let name = settings.name.as_deref();
        let room = settings
            .queue
            .map(|queue| room(&answer, queue, clock.clone(), name));
        Arc::new_cyclic(|me| Self {
            clock,
            answer,
            interval,
            room,
            saturated: match &settings.name {
                Some(name) => saturated.with_limiter(name),
                None => saturated,
            },
            measuring: Mutex::new(Measuring {
                gauge,
                level,
                tried_at: now,
                succeeded_at: now,
                error: None,
            }),
            me: Weak::clone(me),
        })
    }

    /// Checks whether new work may start. While samples are recent, this reads the clock and two words.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Denied> {
        self.check_at(self.clock.now())
    }

    #[inline]
    fn check_at(&self, now: Moment) -> Result<(), Denied> {
        match self.answer(now) {
            NORMAL => Ok(()),
            other => self.refuse(other),
        }
    }

    #[inline]
    fn answer(&self, now: Moment) -> u8 {
        if self.answer.is_stale(now) {
            self.catch_up(now);
        }
        self.answer.load()
    }

    #[cold]
    fn refuse(&self, answer: u8) -> Result<(), Denied> {
        let reason = match self.answer.reason(answer) {
            None => return Ok(()),
            Some(Reason::Saturated) => return Err(self.saturated.clone()),
            Some(reason) => reason,
        };
        let denied = Denied::new(reason);
        Err(match self.name() {
            Some(name) => denied.with_limiter(name),
            None => denied,
        })
    }

    /// The last sample is too old: the first caller measures, the others use the last answer.
    #[cold]
    fn catch_up(&self, now: Moment) {
        let stale_at = &self.answer.stale_at;
        let before = stale_at.load(Ordering::Relaxed);
        let next = now.plus_nanos(self.interval).as_nanos();
        let claimed = now.as_nanos() >= before
            && stale_at
                .compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if claimed {
            let measuring = match self.measuring.try_lock() {
                Ok(measuring) => measuring,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            // The error is stored for `last_error`, and decides the answer.
            let _stored = self.measure_with(measuring);
        }
    }

    pub(crate) fn measure(&self) -> Result<(), SourceError> {
        self.measure_with(self.measuring())
    }

    fn measure_with(&self, mut measuring: MutexGuard<'_, Measuring>) -> Result<(), SourceError> {
        // Read under the lock, so that gauges never see time run backwards.
        let now = self.clock.precise_now();
        measuring.tried_at = now;
        // A user-supplied source that panics must not stop the sampling of the others.
        let measured = catch_unwind(AssertUnwindSafe(|| measuring.gauge.measure(now)))
            .unwrap_or_else(|_| Err(SourceError::new("the source panicked")));
        match &measured {
            Ok(level) => {
                measuring.level = *level;
                measuring.succeeded_at = now;
                measuring.error = None;
                self.answer.publish(*level as u8);
                let stale_at = stale_from(now, self.interval);
                self.answer.stale_at.store(stale_at, Ordering::Relaxed);
            }
            Err(error) => {
                measuring.error = Some(error.clone());
                if now.as_nanos() >= stale_from(measuring.succeeded_at, self.interval) {
                    self.answer.publish(UNKNOWN);
                }
                // The next attempt is due after an interval.
                let next = now.plus_nanos(self.interval).as_nanos();
                self.answer.stale_at.fetch_max(next, Ordering::Relaxed);
            }
        }
        // A waiter that is woken may ask this limiter.
        drop(measuring);
        if let Some(room) = &self.room {
            room.recheck();
        }
        measured.map(drop)
    }

    fn measuring(&self) -> MutexGuard<'_, Measuring> {
        self.measuring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn level(&self) -> Level {
        match self.answer(self.clock.now()) {
            NORMAL => Level::Normal,
            SOFT => Level::Soft,
            HARD => Level::Hard,
            _ => self.measuring().level,
        }
    }

    pub(crate) fn last_error(&self) -> Option<SourceError> {
        self.measuring().error.clone()
    }

    /// The latest moment of the next sample.
    pub(crate) fn due_at(&self) -> Moment {
        self.measuring().tried_at.plus_nanos(self.interval)
    }

    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.saturated.limiter()
    }

    pub(crate) fn close(&self) {
        self.answer.close();
        if let Some(room) = &self.room {
            room.close();
        }
    }

    pub(crate) fn room(&self) -> Option<&Room> {
        self.room.as_ref()
    }

    /// Waits until it admits, if there is a queue.
    pub(crate) fn acquire(&self, demand: Demand) -> Acquire<'_> {
        match (&self.room, self.permit(demand)) {
            // It also waits while the answer is unknown.
            (Some(room), Err(denied)) if denied.reason() != Reason::Closed => room.acquire(demand),
            (_, answer) => Acquire::ready(answer),
        }
    }

    /// An acquire that borrows nothing.
    pub(crate) fn acquire_owned(&self, demand: Demand) -> Acquire<'static> {
        match (&self.room, self.permit(demand)) {
            (Some(room), Err(denied)) if denied.reason() != Reason::Closed => {
                room.acquire_owned(demand)
            }
            (_, answer) => Acquire::ready(answer.map(Permit::into_owned)),
        }
    }

    pub(crate) fn permit(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        let now = self.clock.now();
        self.check_at(now)?;
        let grant = Grant::of(demand).taken(now);
        Ok(Permit::new(self, grant, false))
    }

    /// Everything or nothing is available.
    pub(crate) fn snapshot(&self) -> Snapshot {
        if let Some(room) = &self.room {
            return room.snapshot();
        }
        let available = if self.check().is_ok() { u64::MAX } else { 0 };
        Snapshot::of(u64::MAX, available)
    }
}

fn stale_from(measured: Moment, interval: u64) -> u64 {
    measured
        .plus_nanos(interval.saturating_mul(INTERVALS))
        .as_nanos()
}

/// Permits take nothing, so nothing is returned.
impl Source for Watch {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}
}

impl Shareable for Watch {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("a watch lives in an Arc"),
        }
    }
}
