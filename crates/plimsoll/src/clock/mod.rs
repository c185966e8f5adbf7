//! Clocks: sources of time and of alarms.
//!
//! A clock reads the time, and rings the alarms of limiters with waiters. The two belong together: a manual clock rings
//! when it is advanced, tokio's clock when tokio's time has come. Limiters that share a clock share its driver, so no
//! limiter has a timer, a thread or a task of its own.

mod alarms;
mod counter;
mod keeper;
mod manual;
#[cfg(all(test, loom))]
pub(crate) mod model;
mod sleep;
mod time;
#[cfg(feature = "tokio")]
mod tokio;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::keeper::keeper;
use crate::Moment;

pub(crate) use alarms::{AlarmId, Setting};
pub use manual::ManualClock;
pub use sleep::Sleep;

/// The target of an alarm.
pub(crate) trait Ring: Send + Sync {
    /// The moment of the alarm's setting `version` has come; it is now `now`.
    fn ring(&self, now: Moment, version: u64);
}

/// A source of time. Cloning is cheap, and clones are the same clock.
///
/// | clock | reads | late by | waiters are woken by |
/// |---|---|---|---|
/// | [`system`](Self::system), the default | the kernel's coarse clock | [three ticks of the kernel](Self::resolution) at most | one thread of the process |
/// | [`precise`](Self::precise) | the processor's counter | nothing | the same thread |
/// | [`manual`](Self::manual) | a word in memory | | you |
/// | `tokio`, with the feature of that name | tokio's clock | nothing | tokio, paused time included |
///
/// `system` and `precise` are two readings of the same time, which starts with the Unix epoch. A thread that reads both
/// may see time step back by at most their difference. Rules treat a step back as no passage of time.
///
/// # The thread
///
/// Decisions need no thread. One thread is started when a demand first *waits* for a moment of the machine's time, and
/// sleeps while no demand waits. A waker or a rule that panics on this thread does not stop it. A child of `fork` has
/// its parent's limiters but not this thread; it starts its own when a demand first waits. As with every lock, a lock
/// that another thread of the parent held during the fork stays held in the child, so fork before other threads use
/// limiters, or `exec` afterwards.
///
/// ```
/// use plimsoll::{Clock, Gate, TokenBucket};
///
/// let clock = Clock::precise();
/// let gate = Gate::builder(TokenBucket::per_second(10)).clock(clock.clone()).build();
/// let permit = gate.try_acquire(1)?;
/// assert!(permit.granted_at() <= clock.now());
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone)]
pub struct Clock(ClockKind);

#[derive(Clone)]
enum ClockKind {
    System,
    Precise,
    Manual(Arc<manual::Hand>),
    #[cfg(feature = "tokio")]
    Tokio(Arc<tokio::Driver>),
    /// The machine's clock in a model: its thread and its time are the model's.
    #[cfg(all(test, loom))]
    Model(Arc<model::Machine>),
}

impl Clock {
    /// Returns the default clock of limiters: the moment of the kernel's last tick.
    ///
    /// Reading a precise clock costs more than a whole decision. This clock is cheaper, and may be late by at most
    /// three [ticks](Self::resolution): the kernel skips a tick that comes a little early, and another may come late.
    /// It is never early. The bound does not depend on any thread of the process, so it holds under any load, as long
    /// as the kernel handles its own ticks. In virtual machines under load, readings up to five ticks late have been
    /// seen.
    ///
    /// For limits this means: in any span of time a limit grants at most what it may grant in a span that is longer by
    /// three ticks. No demand is refused because the clock is late: if the demand would be granted within three ticks,
    /// it is decided again by the precise time. Waiters are served by the precise time.
    ///
    /// Moments count from the Unix epoch as the machine knew it when the process first read it; later steps of the wall
    /// clock have no effect, and time during which the machine is suspended does not count.
    #[must_use]
    pub const fn system() -> Self {
        Self(ClockKind::System)
    }

    /// Returns a clock that reads the same time as [`system`](Self::system), to the nanosecond.
    ///
    /// It reads the processor's counter and compares it with the kernel's clock every 10 ms, which corrects a counter
    /// that drifts or jumps (after the machine was suspended or moved to another host).
    #[must_use]
    pub const fn precise() -> Self {
        Self(ClockKind::Precise)
    }

    /// Creates a [`ManualClock`] at its origin.
    #[must_use]
    pub fn manual() -> ManualClock {
        ManualClock::new()
    }

    /// Returns whether it is a [`ManualClock`].
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        matches!(self.0, ClockKind::Manual(_))
    }

    /// Creates a clock that follows tokio's time, including `tokio::time::pause` and `advance`.
    ///
    /// A waiter is woken by a task of the runtime in which it waits; outside of any runtime, by a task of the runtime
    /// in which the clock was created. If neither runtime is running, the thread of the system clock wakes it after the
    /// same span of real time. So the clock can be created anywhere, and no waiter depends on a runtime that has ended.
    /// A clock that several runtimes share shows the latest time that any of them has seen.
    ///
    /// Moments count from the creation of the clock.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn tokio() -> Self {
        Self(ClockKind::Tokio(Arc::new(tokio::Driver::new())))
    }

    /// Returns the step in which this clock advances: for [`system`](Self::system) the kernel's tick, 1 to 10 ms
    /// depending on its configuration; zero for all others. A reading is late by at most three steps.
    #[must_use]
    pub fn resolution(&self) -> Duration {
        match self.0 {
            ClockKind::System => Duration::from_nanos(time::late_nanos() / time::TICKS_LATE),
            _ => Duration::ZERO,
        }
    }

    /// The most by which a reading may be late.
    pub(crate) fn late(&self) -> Duration {
        match self.0 {
            ClockKind::System => Duration::from_nanos(time::late_nanos()),
            _ => Duration::ZERO,
        }
    }

    /// Returns the current time. A reading of [`system`](Self::system) may be late.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> Moment {
        // The default in line, and all others out of the way: this is on every path.
        if matches!(self.0, ClockKind::System) {
            return time::coarse_now();
        }
        self.other_now()
    }

    /// The precise moment, for a demand that is refused at `now` and would be granted from `ready_at` on, if `now` was
    /// read from a late clock and `ready_at` may have passed. The demand is then decided again.
    #[inline(always)]
    pub(crate) fn refine(&self, now: Moment, ready_at: Moment) -> Option<Moment> {
        if !matches!(self.0, ClockKind::System) || time::is_surely_before(now, ready_at) {
            return None;
        }
        time::precise_unless_before(now, ready_at)
    }

    /// The moment; the clock is read only if that is `useful`.
    pub(crate) fn now_if(&self, useful: bool) -> Option<Moment> {
        useful.then(|| self.now())
    }

    /// The tick of the machine, where a rough moment is enough; `None` if the clock is driven by something else.
    #[inline]
    pub(crate) fn tick(&self) -> Option<Moment> {
        matches!(self.0, ClockKind::System | ClockKind::Precise).then(time::coarse_now)
    }

    /// The moment of a clock other than the default.
    #[inline(never)]
    fn other_now(&self) -> Moment {
        match &self.0 {
            ClockKind::System | ClockKind::Precise => time::precise_now(),
            ClockKind::Manual(hand) => hand.now(),
            #[cfg(feature = "tokio")]
            ClockKind::Tokio(driver) => driver.now(),
            #[cfg(all(test, loom))]
            ClockKind::Model(machine) => machine.now(),
        }
    }

    /// Returns the current time, as precisely as this clock can read it.
    #[must_use]
    pub fn precise_now(&self) -> Moment {
        match &self.0 {
            ClockKind::System => time::precise_now(),
            _ => self.now(),
        }
    }

    /// Whether both always show the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (ClockKind::System, ClockKind::System) | (ClockKind::Precise, ClockKind::Precise) => {
                true
            }
            (ClockKind::Manual(one), ClockKind::Manual(other)) => Arc::ptr_eq(one, other),
            #[cfg(feature = "tokio")]
            (ClockKind::Tokio(one), ClockKind::Tokio(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether it stands still unless something drives it.
    pub(crate) fn is_driven(&self) -> bool {
        #[cfg(all(test, not(loom)))]
        if let ClockKind::Manual(hand) = &self.0 {
            return !hand.stands_for_the_machine();
        }
        !matches!(self.0, ClockKind::System | ClockKind::Precise)
    }

    /// Whether it is moved by calls, which ring all alarms on the way before they return.
    pub(crate) fn is_moved_by_hand(&self) -> bool {
        matches!(self.0, ClockKind::Manual(_))
    }

    /// Returns a future that resolves when the clock shows `moment`.
    pub fn sleep_until(&self, moment: Moment) -> Sleep {
        Sleep::new(self.clone(), moment)
    }

    /// Registers an alarm, until [`release`](Self::release).
    pub(crate) fn register(&self, target: Weak<dyn Ring>) -> AlarmId {
        self.alarms().register(target)
    }

    /// Sets an alarm, replacing its former time unless that was decided on later. It rings once, not before its time.
    ///
    /// Returns whether the moment has passed already and the alarm will not ring: a manual clock has been moved past it.
    ///
    /// Call it with no lock held, unless the clock is manual: it may be a system call.
    pub(crate) fn set(&self, setting: Setting) -> bool {
        match &self.0 {
            ClockKind::System | ClockKind::Precise => keeper().set(setting),
            ClockKind::Manual(hand) => {
                hand.alarms().set(setting);
                return hand.now() >= setting.at;
            }
            #[cfg(feature = "tokio")]
            ClockKind::Tokio(driver) => tokio::Driver::set(driver, setting),
            #[cfg(all(test, loom))]
            ClockKind::Model(machine) => machine.keeper.note(setting),
        }
        false
    }

    /// Called for a waiter that goes on waiting: makes sure that a thread or task rings, in this process and runtime.
    pub(crate) fn attend(&self) {
        match &self.0 {
            ClockKind::System | ClockKind::Precise => keeper().attend(),
            ClockKind::Manual(_) => {}
            #[cfg(feature = "tokio")]
            ClockKind::Tokio(driver) => tokio::Driver::attend(driver),
            #[cfg(all(test, loom))]
            ClockKind::Model(_) => {}
        }
    }

    /// Removes the alarm.
    pub(crate) fn release(&self, alarm: AlarmId) {
        self.alarms().release(alarm);
    }

    fn alarms(&self) -> &alarms::Alarms {
        match &self.0 {
            ClockKind::System | ClockKind::Precise => &keeper().alarms,
            ClockKind::Manual(hand) => hand.alarms(),
            #[cfg(feature = "tokio")]
            ClockKind::Tokio(driver) => driver.alarms(),
            #[cfg(all(test, loom))]
            ClockKind::Model(machine) => &machine.keeper.alarms,
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
            ClockKind::System => "Clock::system",
            ClockKind::Precise => "Clock::precise",
            ClockKind::Manual(_) => "Clock::manual",
            #[cfg(feature = "tokio")]
            ClockKind::Tokio(_) => "Clock::tokio",
            #[cfg(all(test, loom))]
            ClockKind::Model(_) => "Clock::model",
        })
    }
}
