//! The time of the machine, in two qualities on one scale: the kernel's monotonic clock, counted from the Unix
//! epoch as the machine knew it when the process first asked.
//!
//! *Coarse*: the moment of the kernel's last tick, read from memory that the kernel maps into every process. It is
//! late by at most three ticks, one of which the kernel passes over if it comes a little early, and one for an interrupt
//! that comes a little late; it does not depend on any thread of ours being scheduled.
//!
//! *Precise*: the processor's counter, which is read faster than the kernel's precise clock and
//! [disciplined](super::counter) by it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::counter::Counter;
use crate::Moment;

/// What is added to the kernel's monotonic clock, modulo 2^64; 0 before the first reading.
static OFFSET: AtomicU64 = AtomicU64::new(0);

/// A lateness that no clock has, which means that the kernel was not asked yet. No sum of it and a moment overflows
/// before the year 2400.
const NOT_ASKED: u64 = 1 << 62;

/// By how much the coarse time may be late.
static LATE: AtomicU64 = AtomicU64::new(NOT_ASKED);

static COUNTER: OnceLock<Counter> = OnceLock::new();

/// The moment of the kernel's last tick.
#[inline]
pub(super) fn coarse_now() -> Moment {
    at(kernel::coarse())
}

/// The moment, by the counter of the processor.
///
/// Two readings may disagree by a little about which was first; rules take that as standing still.
#[inline]
pub(super) fn precise_now() -> Moment {
    let counter = match COUNTER.get() {
        Some(counter) => counter,
        None => start_counter(),
    };
    Moment::from_nanos(counter.now(kernel_now))
}

/// The number of ticks by which the coarse time may be late. Two were too few: a machine that skipped ticks was later by some
/// microseconds now and then, for minutes.
pub(super) const TICKS_LATE: u64 = 3;

/// By how much the coarse time may be late.
pub(super) fn late_nanos() -> u64 {
    match LATE.load(Ordering::Relaxed) {
        NOT_ASKED => {
            let late = kernel::tick() * TICKS_LATE;
            LATE.store(late, Ordering::Relaxed);
            late
        }
        late => late,
    }
}

/// Whether `moment` has not come yet, although it is only known that the coarse time was `now`. May say no before
/// the kernel was asked for its ticks.
#[inline]
pub(super) fn is_surely_before(now: Moment, moment: Moment) -> bool {
    // One load, one addition: this is asked at every refusal.
    let latest = now.as_nanos().wrapping_add(LATE.load(Ordering::Relaxed));
    latest < moment.as_nanos()
}

/// The precise moment, unless `moment` has not come yet in any case.
#[inline(never)]
pub(super) fn precise_unless_before(now: Moment, moment: Moment) -> Option<Moment> {
    (moment.nanos_since(now) <= late_nanos()).then(precise_now)
}

#[cold]
fn start_counter() -> &'static Counter {
    COUNTER.get_or_init(|| Counter::new(quanta::Clock::new(), kernel_now))
}

/// The kernel's precise time, on our scale.
fn kernel_now() -> u64 {
    at(kernel::precise()).as_nanos()
}

/// A reading of the kernel's clock as a moment.
#[inline]
fn at(kernel: u64) -> Moment {
    let offset = match OFFSET.load(Ordering::Relaxed) {
        0 => start_offset(),
        offset => offset,
    };
    Moment::from_nanos(kernel.wrapping_add(offset))
}

#[cold]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that may read the system clock"
)]
fn start_offset() -> u64 {
    let unix: Duration = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let offset = crate::moment::saturating_nanos(unix).wrapping_sub(kernel::precise());
    // The first thread decides for all.
    match OFFSET.compare_exchange(0, offset.max(1), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => offset.max(1),
        Err(other) => other,
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

    #[inline]
    pub(super) fn coarse() -> u64 {
        nanos(clock_gettime(ClockId::MonotonicCoarse))
    }

    #[inline]
    pub(super) fn precise() -> u64 {
        nanos(clock_gettime(ClockId::Monotonic))
    }

    /// The steps in which the coarse time advances: from 1 to 10 ms.
    pub(super) fn tick() -> u64 {
        nanos(clock_getres(ClockId::MonotonicCoarse)).clamp(1, 1_000_000_000)
    }

    /// The monotonic clock counts from the start of the machine: neither part is negative or large.
    #[inline]
    fn nanos(time: Timespec) -> u64 {
        time.tv_sec
            .cast_unsigned()
            .wrapping_mul(1_000_000_000)
            .wrapping_add(time.tv_nsec.cast_unsigned())
    }
}

/// If the kernel has no coarse clock, or none that is faster, the precise clock serves as both.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod kernel {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();

    pub(super) fn coarse() -> u64 {
        precise()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that may read the system clock"
    )]
    pub(super) fn precise() -> u64 {
        let start = START.get_or_init(Instant::now);
        crate::moment::saturating_nanos(start.elapsed())
    }

    pub(super) fn tick() -> u64 {
        0
    }
}
