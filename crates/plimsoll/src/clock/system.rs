//! The time of the machine: a precise reading, a coarse word, and the one thread that keeps both
//! the word and the waiters going.
//!
//! # The coarse word
//!
//! The word holds the moment in nanoseconds and two flags in its lowest bits. A reader loads it, sees
//! that it is ticking and that somebody has already noted a read in this tick, and is done. The first
//! reader of a tick notes it; when some ticks in a row go by without, the thread marks the word as
//! asleep and stops ticking. A reader of a sleeping word reads the precise time, and starts the
//! ticking again only if the reading before it was recent: one who asks once a second is better off
//! without.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::AlarmId;
use super::alarms::Alarms;
use crate::Moment;

/// How often the coarse word is refreshed while anybody reads it.
const TICK_NANOS: u64 = 1_000_000;
/// After so many ticks without a reader the ticking stops.
const QUIET_TICKS: u32 = 8;

/// Flags in the lowest bits of the word; the rest is the moment, rounded down to 4 ns.
const USED: u64 = 1;
const ASLEEP: u64 = 2;
const FLAGS: u64 = USED | ASLEEP;

static WORD: AtomicU64 = AtomicU64::new(ASLEEP);

/// Set by a reader who wakes the thread, so that it can tell a reader from an alarm.
static READER: AtomicBool = AtomicBool::new(false);

/// How to read the processor's counter. What `quanta` knows of its speed is taken over at the start, which
/// spares two questions at each reading.
struct Precise {
    clock: quanta::Clock,
    start: u64,
    /// Nanoseconds for each count, times 2^[`SCALE_BITS`].
    scale: u64,
    /// The Unix time at `start`.
    epoch: u64,
}

const SCALE_BITS: u32 = 40;

static PRECISE: OnceLock<Precise> = OnceLock::new();

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that may read the system clock"
)]
fn start() -> Precise {
    let clock = quanta::Clock::new();
    let epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Over a long stretch, so that its length in nanoseconds is known to many digits.
    let stretch = 1 << 50;
    let nanos = u128::from(clock.delta_as_nanos(0, stretch));
    let scale = (nanos << SCALE_BITS) / u128::from(stretch);
    Precise {
        start: clock.raw(),
        scale: u64::try_from(scale).unwrap_or(u64::MAX),
        clock,
        epoch: crate::moment::saturating_nanos(epoch),
    }
}

#[cold]
fn started() -> &'static Precise {
    PRECISE.get_or_init(start)
}

/// The processor's time. Two cores may disagree by a little; rules take that as standing still.
#[inline]
pub(super) fn precise_now() -> Moment {
    let precise = match PRECISE.get() {
        Some(precise) => precise,
        None => started(),
    };
    let counted = precise.clock.raw().saturating_sub(precise.start);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "nanoseconds of 500 years fit"
    )]
    let elapsed = ((u128::from(counted) * u128::from(precise.scale)) >> SCALE_BITS) as u64;
    Moment::from_nanos(precise.epoch + elapsed)
}

/// The moment of the last tick, or the precise one if nothing ticks.
#[inline]
pub(super) fn coarse_now() -> Moment {
    let word = WORD.load(Ordering::Acquire);
    if word & FLAGS == USED {
        Moment::from_nanos(word & !FLAGS)
    } else {
        coarse_now_slow(word)
    }
}

#[cold]
fn coarse_now_slow(word: u64) -> Moment {
    if word & ASLEEP == 0 {
        // The first reader in this tick. A tick that comes in between is noted a tick later.
        let _ = WORD.compare_exchange(word, word | USED, Ordering::AcqRel, Ordering::Relaxed);
        return Moment::from_nanos(word & !FLAGS);
    }
    let now = refreshed_now();
    if now.as_nanos().saturating_sub(word & !FLAGS) < 2 * TICK_NANOS {
        READER.store(true, Ordering::Release);
        KEEPER.wake();
    }
    now
}

/// The precise moment, which readers of the coarse word then see too.
pub(super) fn refreshed_now() -> Moment {
    let now = precise_now().as_nanos() & !FLAGS;
    let mut word = WORD.load(Ordering::Acquire);
    while word & !FLAGS < now {
        let fresh = now | (word & FLAGS);
        match WORD.compare_exchange_weak(word, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Moment::from_nanos(now),
            Err(other) => word = other,
        }
    }
    Moment::from_nanos(word & !FLAGS)
}

/// The thread that ticks and rings.
struct Keeper {
    running: AtomicBool,
    /// Until when the thread sleeps, in nanoseconds; 0 while it is awake.
    asleep_until: Mutex<u64>,
    bell: Condvar,
    alarms: Alarms,
}

static KEEPER: Keeper = Keeper {
    running: AtomicBool::new(false),
    asleep_until: Mutex::new(0),
    bell: Condvar::new(),
    alarms: Alarms::new(),
};

pub(super) fn alarms() -> &'static Alarms {
    &KEEPER.alarms
}

pub(super) fn set(alarm: AlarmId, at: Moment) {
    if KEEPER.alarms.set(alarm, at) {
        KEEPER.wake_before(at);
    }
}

impl Keeper {
    fn wake(&'static self) {
        self.wake_before(Moment::ORIGIN);
    }

    /// Wakes the thread if it means to sleep past `at`.
    fn wake_before(&'static self, at: Moment) {
        if !self.running.load(Ordering::Acquire) {
            self.start();
        }
        let mut until = self
            .asleep_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *until > at.as_nanos() {
            *until = 0;
            drop(until);
            self.bell.notify_one();
        }
    }

    #[cold]
    fn start(&'static self) {
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let keeper = thread::Builder::new()
            .name("plimsoll-clock".to_owned())
            .spawn(move || self.keep());
        if keeper.is_err() {
            // No thread to be had now: readers fall back to the precise time, and the next one who
            // needs the thread tries again.
            self.running.store(false, Ordering::Release);
        }
    }

    fn keep(&self) {
        let mut quiet = 0;
        let mut next_tick = Moment::ORIGIN;
        loop {
            let now = refreshed_now();
            self.alarms.ring_due(now);
            // A reader who woke the thread waits for a tick even if none was due.
            if now >= next_tick || READER.swap(false, Ordering::AcqRel) {
                let ticking = self.tick(&mut quiet);
                next_tick = if ticking {
                    now.plus_nanos(TICK_NANOS)
                } else {
                    Moment::NEVER
                };
            }
            self.sleep_until(next_tick);
        }
    }

    /// Notes whether anybody has read the word since the last tick; returns whether to go on.
    fn tick(&self, quiet: &mut u32) -> bool {
        let word = WORD.fetch_and(!FLAGS, Ordering::AcqRel);
        *quiet = if word & USED != 0 || word & ASLEEP != 0 {
            0
        } else {
            *quiet + 1
        };
        if *quiet < QUIET_TICKS {
            return true;
        }
        // A reader who noted itself in this very moment keeps the ticking going.
        let asleep = WORD.load(Ordering::Acquire);
        asleep & USED != 0
            || WORD
                .compare_exchange(asleep, asleep | ASLEEP, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
    }

    fn sleep_until(&self, tick: Moment) {
        let mut until = self
            .asleep_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: whoever sets an earlier alarm from here on sees when we mean to wake.
        let next = self.alarms.next().map_or(tick, |alarm| alarm.min(tick));
        *until = next.as_nanos();
        while *until != 0 {
            let now = precise_now().as_nanos();
            if now >= *until {
                break;
            }
            let span = Duration::from_nanos((*until).saturating_sub(now).min(u64::MAX >> 2));
            until = self
                .bell
                .wait_timeout(until, span)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *until = 0;
    }
}
