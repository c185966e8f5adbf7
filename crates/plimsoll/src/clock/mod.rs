//! Where time comes from, and who rings when it has come.
//!
//! A clock does two things: it tells the moment, and it wakes those who wait for one. Both belong
//! together: a limiter on a clock moved by hand must be woken by the hand, one on tokio's clock by
//! tokio. Limiters that share a clock share whatever drives it, so no limiter has a timer, a thread or
//! a task of its own.

mod alarms;
mod manual;
mod sleep;
mod system;
#[cfg(feature = "tokio")]
mod tokio;

use std::fmt;
use std::sync::{Arc, Weak};

use crate::Moment;

pub(crate) use alarms::AlarmId;
pub use manual::ManualClock;
pub use sleep::Sleep;

/// Somebody who waits for a moment to come.
pub(crate) trait Ring: Send + Sync {
    /// The moment has come; it is now `now`.
    fn ring(&self, now: Moment);
}

/// A source of time. Cloning is cheap, and clones are the same clock.
///
/// | clock | reads | late by | driven by |
/// |---|---|---|---|
/// | [`system`](Self::system), the default | a word in memory | a tick of 1 ms | one thread of the process, asleep while nobody asks |
/// | [`precise`](Self::precise) | the processor's counter | nothing | the same thread, for waiters only |
/// | [`manual`](Self::manual) | a word in memory | | you |
/// | [`tokio`](Self::tokio) | tokio's clock | nothing | tokio, paused time included |
///
/// A clock never runs backwards.
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    System,
    Precise,
    Manual(Arc<manual::Hand>),
    #[cfg(feature = "tokio")]
    Tokio(Arc<tokio::Driver>),
}

impl Clock {
    /// The clock limiters use unless told otherwise: a shared word that is refreshed every
    /// millisecond while anybody reads it.
    ///
    /// Reading a precise clock costs more than a whole decision. This one is late instead, by at most
    /// that tick and as long as a busy machine keeps the ticking thread waiting, and never early: a limit
    /// is not exceeded because of it. When nobody has asked for some ticks the ticking
    /// stops; the next one to ask reads the precise time and starts it again. Waiters are served by
    /// the precise time.
    ///
    /// Moments count from the Unix epoch, as the machine knew it when the process first asked;
    /// later steps of the wall clock do not matter.
    #[must_use]
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// The same time as [`system`](Self::system), to the nanosecond, at every reading.
    #[must_use]
    pub const fn precise() -> Self {
        Self(Kind::Precise)
    }

    /// A clock that is moved by hand, at its origin.
    #[must_use]
    pub fn manual() -> ManualClock {
        ManualClock::new()
    }

    /// Tokio's clock, of the runtime in which it is waited on. It follows `tokio::time::pause` and
    /// `advance`.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn tokio() -> Self {
        Self(Kind::Tokio(Arc::new(tokio::Driver::new())))
    }

    /// The moment, cheaply.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Moment {
        // The default first, and what is only for tests out of the way: this is on every path.
        if matches!(self.0, Kind::System) {
            return system::coarse_now();
        }
        if matches!(self.0, Kind::Precise) {
            return system::precise_now();
        }
        self.driven_now()
    }

    /// The moment, if it is of any use: who asks the coarse clock keeps it ticking.
    pub(crate) fn now_if(&self, useful: bool) -> Option<Moment> {
        useful.then(|| self.now())
    }

    /// The tick of the machine, for whoever needs to know only roughly; `None` if somebody else drives this
    /// clock.
    #[inline]
    pub(crate) fn tick(&self) -> Option<Moment> {
        matches!(self.0, Kind::System | Kind::Precise).then(system::coarse_now)
    }

    /// The moment of a clock that somebody else drives.
    #[inline(never)]
    fn driven_now(&self) -> Moment {
        match &self.0 {
            Kind::System | Kind::Precise => system::precise_now(),
            Kind::Manual(hand) => hand.now(),
            #[cfg(feature = "tokio")]
            Kind::Tokio(driver) => driver.now(),
        }
    }

    /// The moment, as precisely as this clock can tell.
    #[must_use]
    pub fn precise_now(&self) -> Moment {
        match &self.0 {
            Kind::System => system::refreshed_now(),
            _ => self.now(),
        }
    }

    /// Whether both always show the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::System, Kind::System) | (Kind::Precise, Kind::Precise) => true,
            (Kind::Manual(one), Kind::Manual(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "tokio")]
            (Kind::Tokio(one), Kind::Tokio(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether it stands still unless somebody drives it.
    pub(crate) fn is_driven(&self) -> bool {
        !matches!(self.0, Kind::System | Kind::Precise)
    }

    /// Waits until the clock shows `moment`.
    pub fn sleep_until(&self, moment: Moment) -> Sleep {
        Sleep::new(self.clone(), moment)
    }

    /// Makes a place for an alarm. It is given up with [`release`](Self::release).
    pub(crate) fn register(&self, target: Weak<dyn Ring>) -> AlarmId {
        match &self.0 {
            Kind::System | Kind::Precise => system::alarms().register(target),
            Kind::Manual(hand) => hand.alarms().register(target),
            #[cfg(feature = "tokio")]
            Kind::Tokio(driver) => driver.alarms().register(target),
        }
    }

    /// Sets the alarm, replacing its former time. It rings once, not before `at`.
    ///
    /// Returns whether the moment has passed already and nobody else will ring: the hand that moved the
    /// clock has gone by.
    pub(crate) fn set(&self, alarm: AlarmId, at: Moment) -> bool {
        match &self.0 {
            Kind::System | Kind::Precise => system::set(alarm, at),
            Kind::Manual(hand) => {
                hand.alarms().set(alarm, at);
                return hand.now() >= at;
            }
            #[cfg(feature = "tokio")]
            Kind::Tokio(driver) => tokio::Driver::set(driver, alarm, at),
        }
        false
    }

    /// Gives the alarm up.
    pub(crate) fn release(&self, alarm: AlarmId) {
        match &self.0 {
            Kind::System | Kind::Precise => system::alarms().release(alarm),
            Kind::Manual(hand) => hand.alarms().release(alarm),
            #[cfg(feature = "tokio")]
            Kind::Tokio(driver) => driver.alarms().release(alarm),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::System => "Clock::system",
            Kind::Precise => "Clock::precise",
            Kind::Manual(_) => "Clock::manual",
            #[cfg(feature = "tokio")]
            Kind::Tokio(_) => "Clock::tokio",
        })
    }
}
