use std::time::Duration;

use super::period::Period;
use crate::{Carry, Moment, Packed, PackedTake, Quota, Refusal, Rule};

/// A count that starts from zero in each window: 100 a minute.
///
/// # What it grants
///
/// Up to the limit in each window, at any time within it. Around the boundary between two windows up to twice the limit
/// can pass at once: the whole limit at the end of one window, and again at the start of the next.
///
/// # What it remembers
///
/// The number of the window and the usage in it, in 8 bytes. A decision takes no lock. A refund returns usage of the
/// same window; usage of an earlier window has expired with it.
///
/// # The formula
///
/// Window k lasts from `start + k · period` up to, not including, `start + (k + 1) · period`. A demand of cost c at the
/// moment t is granted if the usage in the window of t plus c is at most the limit; a refused demand can be retried
/// when the next window begins.
///
/// # When to choose it
///
/// When a contract is stated in windows, or when many processes must agree on when a limit renews: windows [aligned to
/// the epoch](Self::aligned_to_epoch) begin at the same moments everywhere. Otherwise a
/// [`TokenBucket`](crate::TokenBucket) costs the same and has no boundaries, and a [`SlidingLog`](crate::SlidingLog)
/// grants no more than the limit in any window.
///
/// # At the edges
///
/// - A refusal reports the end of the window, so all refused callers retry at the same moment. A queue, or jitter in
///   the callers, spreads them.
/// - A [charge](crate::Gate::charge) above the remainder uses up the window; the excess is not charged to the next
///   window.
/// - If the clock steps back, the latest window stays current.
///
/// ```
/// use plimsoll::{FixedWindow, Gate, ManualClock, Quota};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(FixedWindow::new(Quota::per_minute(100))).clock(time.clock()).build();
/// time.advance(Duration::from_secs(59));
/// assert!(gate.try_acquire(100).is_ok());
/// assert_eq!(gate.try_acquire(1).unwrap_err().retry_after(), Some(Duration::from_secs(1)));
/// time.advance(Duration::from_secs(1));
/// assert!(gate.try_acquire(100).is_ok(), "the next window");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FixedWindow {
    limit: u64,
    window: Period,
    align: Align,
    origin: Moment,
}

/// The alignment of windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Align {
    Start,
    Epoch,
}

/// The state of a [`FixedWindow`]: the number of the current window and the usage in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Window {
    index: u64,
    used: u64,
    origin: Moment,
}

/// The layout of a word: the low bits of the window's number above the bits of the usage.
const USED_BITS: u32 = 32;
const INDEX_BITS: u32 = 31;
/// The highest limit with usage that always fits a word.
const MOST_PACKED: u64 = (1 << USED_BITS) - 1;

impl FixedWindow {
    /// Creates a limit of the quota's units in each of its periods, counted from the start of the limiter.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Gate, ManualClock, Quota};
    /// use std::time::Duration;
    ///
    /// // Twice the limit around a border: 100 at the end of one minute, 100 at the beginning of the next.
    /// let time = ManualClock::new();
    /// let gate = Gate::builder(FixedWindow::new(Quota::per_minute(100))).clock(time.clock()).build();
    /// time.advance(Duration::from_millis(59_999));
    /// gate.try_acquire(100)?;
    /// time.advance(Duration::from_millis(1));
    /// gate.try_acquire(100)?;
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn new(quota: Quota) -> Self {
        Self {
            limit: quota.units(),
            window: Period::new(quota.nanos()),
            align: Align::Start,
            origin: Moment::ORIGIN,
        }
    }

    /// Counts windows from the origin of the clock instead of the start of the limiter, so that all
    /// limiters on one clock change windows together.
    ///
    /// ```
    /// use plimsoll::{FixedWindow, Gate, ManualClock, Quota};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// time.advance(Duration::from_secs(50));
    /// // Built 50 s after the origin of the clock: the first window has 10 s left.
    /// let rule = FixedWindow::new(Quota::per_minute(1)).aligned_to_epoch();
    /// let gate = Gate::builder(rule).clock(time.clock()).build();
    /// gate.try_acquire(1)?;
    /// assert_eq!(gate.try_acquire(1).unwrap_err().retry_after(), Some(Duration::from_secs(10)));
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn aligned_to_epoch(mut self) -> Self {
        self.align = Align::Epoch;
        self
    }

    /// Returns the quota of each window.
    pub const fn quota(&self) -> Quota {
        Quota::new(self.limit, Duration::from_nanos(self.window.nanos()))
    }

    /// Returns whether windows are counted from the origin of the clock.
    #[must_use]
    pub const fn is_aligned_to_epoch(&self) -> bool {
        matches!(self.align, Align::Epoch)
    }

    /// The window of `now`, not before that of the state.
    #[inline]
    fn at(&self, state: Window, now: Moment) -> Window {
        let index = self.window.index(now.nanos_since(state.origin));
        if index > state.index {
            Window {
                index,
                used: 0,
                ..state
            }
        } else {
            state
        }
    }

    fn next(&self, state: Window) -> Moment {
        self.window
            .start(state.origin, state.index.saturating_add(1))
    }
}

impl Rule for FixedWindow {
    type State = Window;
    type Fast = Self;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn began(&self) -> Moment {
        self.origin
    }

    fn begin(&mut self, start: Moment) {
        if self.align == Align::Start {
            self.origin = start;
        }
    }

    fn fresh(&self, now: Moment) -> Window {
        let origin = match self.align {
            Align::Start => now,
            Align::Epoch => self.origin,
        };
        Window {
            index: self.window.index(now.nanos_since(origin)),
            used: 0,
            origin,
        }
    }

    fn fresh_key(&self, now: Moment) -> Window {
        Window {
            index: self.window.index(now.nanos_since(self.origin)),
            used: 0,
            origin: self.origin,
        }
    }

    #[inline]
    fn take(&self, state: &mut Window, now: Moment, cost: u64) -> Result<(), Refusal> {
        let window = self.at(*state, now);
        match window.used.checked_add(cost) {
            Some(used) if used <= self.limit => {
                *state = Window { used, ..window };
                Ok(())
            }
            _ => Err(Refusal::until(self.next(window))),
        }
    }

    fn recorded_at(&self, state: &Window, now: Moment) -> Moment {
        now.max(self.window.start(state.origin, state.index))
    }

    fn available(&self, state: &Window, now: Moment) -> u64 {
        self.limit.saturating_sub(self.at(*state, now).used)
    }

    fn in_use(&self, state: &Window, now: Moment) -> u64 {
        self.at(*state, now).used
    }

    fn refund(&self, state: &mut Window, now: Moment, taken: Moment, cost: u64) {
        *state = self.at(*state, now);
        // Usage of an earlier window has expired.
        if self.window.index(taken.nanos_since(state.origin)) >= state.index {
            state.used = state.used.saturating_sub(cost);
        }
    }

    fn full_at(&self, state: &Window, now: Moment) -> Option<Moment> {
        let window = self.at(*state, now);
        Some(if window.used == 0 {
            now
        } else {
            self.next(window)
        })
    }

    fn evictable_from(&self, state: &Window, now: Moment) -> Option<Moment> {
        // The windows of a new key are counted from the start of the limiter.
        if state.origin == self.origin {
            self.full_at(state, now)
        } else {
            Some(Moment::NEVER)
        }
    }

    fn adopt(&self, old: &Self, state: &Window, now: Moment, carry: Carry) -> Window {
        Window {
            used: carry.used(old.in_use(state, now), old.limit, self.limit),
            ..self.fresh(now)
        }
    }
}

impl Packed<Self> for FixedWindow {
    #[inline]
    fn pack(rule: &Self, state: &Window, now: Moment) -> Option<u64> {
        // As of now: the number of a window long gone would be read as a future one. One that is still far ahead, after
        // the clock stepped back, would be read as one long gone.
        let state = rule.at(*state, now);
        let ahead = state.index - rule.window.index(now.nanos_since(state.origin));
        let index = state.index & ((1 << INDEX_BITS) - 1);
        let packable = state.origin == rule.origin
            && ahead < 1 << (INDEX_BITS - 3)
            && rule.limit.max(state.used) <= MOST_PACKED;
        packable.then_some(index << USED_BITS | state.used)
    }

    #[inline]
    fn unpack(rule: &Self, word: u64, now: Moment) -> Window {
        let current = rule.window.index(now.nanos_since(rule.origin));
        // The distance from the current window, as a signed number of `INDEX_BITS` bits.
        const UNUSED: u32 = 64 - INDEX_BITS;
        let ahead = ((word >> USED_BITS).wrapping_sub(current) << UNUSED).cast_signed() >> UNUSED;
        Window {
            index: current.saturating_add_signed(ahead),
            used: word & MOST_PACKED,
            origin: rule.origin,
        }
    }

    /// Usually the window is the same as before, and taking is an addition.
    #[inline(always)]
    fn take_packed(rule: &Self, word: u64, now: Moment, cost: u64) -> PackedTake {
        let current = rule.window.index(now.nanos_since(rule.origin));
        if word >> USED_BITS == current & ((1 << INDEX_BITS) - 1) {
            let used = (word & MOST_PACKED).checked_add(cost);
            if used.is_some_and(|used| used <= rule.limit) {
                return PackedTake::Taken(word + cost);
            }
            let next = rule.window.start(rule.origin, current.saturating_add(1));
            return PackedTake::Refused(Refusal::until(next).with_full_at(next));
        }
        let mut state = Self::unpack(rule, word, now);
        match rule.take(&mut state, now, cost) {
            // In a window that another thread has entered, by a clock that is late.
            Ok(()) if rule.recorded_at(&state, now) != now => PackedTake::Unpackable,
            Ok(()) => {
                Self::pack(rule, &state, now).map_or(PackedTake::Unpackable, PackedTake::Taken)
            }
            Err(_) => PackedTake::Unpackable,
        }
    }

    fn epoch_bits(rule: &Self) -> u32 {
        // At most 2^28 windows in an epoch.
        (28 + rule.window.nanos().ilog2()).min(62)
    }
}
