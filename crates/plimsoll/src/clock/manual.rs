use std::sync::Arc;
use std::time::Duration;

use super::alarms::Alarms;
use super::{Clock, ClockKind};
use crate::Moment;
use crate::sync::{AtomicU64, Ordering};
use crate::unwind::First;

/// A clock that is advanced by calls, for tests and simulations.
///
/// Advancing it serves every waiter that falls due on the way, each at its own moment and in order, before the call
/// returns. Tests need not sleep. Clones are the same clock.
///
/// ```
/// use plimsoll::{Gate, ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(1)).clock(time.clock()).build();
/// assert!(gate.try_acquire(1).is_ok());
/// assert!(gate.try_acquire(1).is_err());
/// time.advance(Duration::from_secs(1));
/// assert!(gate.try_acquire(1).is_ok());
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Hand>);

#[derive(Default)]
pub(super) struct Hand {
    now: AtomicU64,
    alarms: Alarms,
    /// How often it was read.
    #[cfg(test)]
    reads: AtomicU64,
    /// Whether waiters are served as on the machine's clock.
    #[cfg(all(test, not(loom)))]
    machine: bool,
}

impl Hand {
    /// A relaxed load suffices: the caller that moves the clock orders what happens before and after.
    pub(super) fn now(&self) -> Moment {
        #[cfg(test)]
        self.reads.fetch_add(1, Ordering::Relaxed);
        Moment::from_nanos(self.now.load(Ordering::Acquire))
    }

    pub(super) fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn stands_for_the_machine(&self) -> bool {
        self.machine
    }
}

impl ManualClock {
    /// Creates a clock at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock on which waiters are served as on the machine's.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_a_machine() -> Self {
        Self(Arc::new(Hand {
            machine: true,
            ..Hand::default()
        }))
    }

    /// Creates a clock that starts at `moment`.
    #[must_use]
    pub fn starting_at(moment: Moment) -> Self {
        let clock = Self::new();
        clock.0.now.store(moment.as_nanos(), Ordering::Release);
        clock
    }

    /// Returns the [`Clock`] to build limiters with.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(ClockKind::Manual(Arc::clone(&self.0)))
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.0.now()
    }

    /// Returns the next moment at which a waiter falls due. A simulation stops there, because a waiter that is served
    /// may cause events that precede the simulation's next one.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Moment> {
        self.0.alarms.next()
    }

    /// How often it was read.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Advances the clock by `span`.
    pub fn advance(&self, span: Duration) {
        self.advance_to(self.now().plus(span));
    }

    /// Advances the clock to `moment`, through every moment at which a waiter falls due on the way. An earlier moment
    /// leaves the clock as it is.
    ///
    /// # Panics
    ///
    /// Panics if a waker or a rule panics, after the clock has reached `moment` and all other waiters have been served.
    pub fn advance_to(&self, moment: Moment) {
        let mut panics = First::default();
        self.ring_until(moment, &mut panics);
        self.0.now.fetch_max(moment.as_nanos(), Ordering::AcqRel);
        // A thread that set an alarm meanwhile either sees the new time, or its alarm is seen here.
        self.ring_until(moment, &mut panics);
        panics.resume();
    }

    fn ring_until(&self, moment: Moment, panics: &mut First) {
        while let Some(due) = self.0.alarms.pop_due(moment) {
            self.0.now.fetch_max(due.at.as_nanos(), Ordering::AcqRel);
            if let Err(panic) = due.ring(self.now()) {
                panics.keep(panic);
            }
        }
    }
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}
