mod segments;

use std::time::Duration;

use super::period::Period;
use crate::invalid::Unmet;
use crate::{Carry, InvalidLimit, Moment, Quota, Refusal, Rule, Unpacked};
pub use segments::Segments;

/// A window that slides in steps: usage is counted by segment.
///
/// # What it grants
///
/// Up to the limit in the current segment and those before it that make up a window. Usage expires with its segment, so
/// up to one segment before a whole window has passed: with 12 segments in a minute, up to five seconds early. In any
/// span of a window less one segment it grants at most the limit; in any whole window, at most twice the limit.
///
/// # What it remembers
///
/// One count of 8 bytes for each segment. More segments approximate the true sliding window more closely.
///
/// # When to choose it
///
/// When the whole limit must not be granted twice around a boundary, as by a [`FixedWindow`](crate::FixedWindow). If a
/// contract bounds *any* minute, make the window longer by one segment: 13 segments in 65 seconds. For limits of a few
/// units a [`SlidingLog`](crate::SlidingLog) is exact and not larger.
///
/// ```
/// use plimsoll::{Gate, ManualClock, Quota, SlidingWindow};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let rule = SlidingWindow::new(Quota::per_minute(100), 12);
/// let gate = Gate::builder(rule).clock(time.clock()).build();
/// time.advance(Duration::from_secs(12));
/// gate.try_acquire(100)?;
/// // Taken in the segment that began at 10 s, which the window leaves at 70 s: 2 s before a minute has passed.
/// assert_eq!(gate.try_acquire(1).unwrap_err().retry_after(), Some(Duration::from_secs(58)));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SlidingWindow {
    limit: u64,
    window: u64,
    segments: u32,
    /// The length of a segment, if all have the same length.
    segment: Option<Period>,
    /// The length of the shortest segment: some are longer by a nanosecond if they do not have the same length.
    shortest: u64,
    origin: Moment,
}

/// The precision of more segments is not worth their memory.
const MOST_SEGMENTS: u32 = 1 << 16;

impl SlidingWindow {
    /// Creates a limit of the quota's units in a window of its period, which slides in `segments` steps.
    ///
    /// ```
    /// use plimsoll::{Quota, SlidingWindow};
    ///
    /// let rule = SlidingWindow::new(Quota::per_hour(1000), 60);
    /// assert_eq!((rule.quota().units(), rule.segments()), (1000, 60));
    /// assert!(SlidingWindow::try_new(Quota::per_hour(1000), 0).is_err());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `segments` is 0, above 65536, or above the nanoseconds of the period.
    #[track_caller]
    pub const fn new(quota: Quota, segments: u32) -> Self {
        match Self::checked(quota, segments) {
            Ok(window) => window,
            Err(unmet) => unmet.panic(),
        }
    }

    /// Like [`new`](Self::new), but returns an error instead of panicking. For numbers from outside the program.
    ///
    /// # Errors
    ///
    /// Returns an error if `segments` is 0, above 65536, or above the nanoseconds of the period.
    pub fn try_new(quota: Quota, segments: u32) -> Result<Self, InvalidLimit> {
        Self::checked(quota, segments).map_err(|unmet| unmet.with(segments))
    }

    const fn checked(quota: Quota, segments: u32) -> Result<Self, Unmet> {
        if segments == 0 || segments > MOST_SEGMENTS {
            return Err(Unmet {
                field: "segments",
                rule: "1 to 65536",
                message: "a window has 1 to 65536 segments",
            });
        }
        if segments as u64 > quota.nanos() {
            return Err(Unmet {
                field: "segments",
                rule: "at most one for each nanosecond of the window",
                message: "a segment must last at least 1ns",
            });
        }
        let segment = quota.nanos() / segments as u64;
        Ok(Self {
            limit: quota.units(),
            window: quota.nanos(),
            segments,
            segment: if segment * segments as u64 == quota.nanos() {
                Some(Period::new(segment))
            } else {
                None
            },
            shortest: segment,
            origin: Moment::ORIGIN,
        })
    }

    /// Returns the quota of each window.
    pub const fn quota(&self) -> Quota {
        Quota::new(self.limit, Duration::from_nanos(self.window))
    }

    /// Returns the number of segments.
    #[must_use]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// The number of the segment that lies `elapsed` nanoseconds after the origin.
    fn index(&self, elapsed: u64) -> u64 {
        if let Some(segment) = self.segment {
            return segment.index(elapsed);
        }
        let scaled = u128::from(elapsed) * u128::from(self.segments);
        match u64::try_from(scaled) {
            Ok(scaled) => scaled / self.window,
            Err(_) => u64::try_from(scaled / u128::from(self.window)).unwrap_or(u64::MAX),
        }
    }

    /// The start of segment `index`: ⌈index · window / segments⌉.
    fn start(&self, origin: Moment, index: u64) -> Moment {
        if let Some(segment) = self.segment {
            return segment.start(origin, index);
        }
        let scaled = u128::from(index) * u128::from(self.window);
        let nanos = scaled.div_ceil(u128::from(self.segments));
        origin.plus_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The position of the count of segment `index`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the number of segments"
    )]
    fn slot(&self, index: u64) -> usize {
        (index % u64::from(self.segments)) as usize
    }

    /// Makes segment `index` the newest.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the number of segments"
    )]
    fn set_newest(&self, state: &mut Segments, index: u64) {
        state.newest = index;
        state.slot = self.slot(index) as u32;
        state.until = self.start(state.origin, index.saturating_add(1));
    }

    /// Removes the segments that have left the window at `now`.
    #[inline]
    fn advance(&self, state: &mut Segments, now: Moment) {
        if now >= state.until {
            self.advance_to(state, now);
        }
    }

    #[cold]
    fn advance_to(&self, state: &mut Segments, now: Moment) {
        let index = self.index(now.nanos_since(state.origin));
        let passed = index.saturating_sub(state.newest);
        if passed == 0 {
            // At the end of time no other begins.
            return;
        }
        if passed >= u64::from(self.segments) {
            state.counts.fill(0);
            state.used = 0;
        } else {
            for gone in state.newest + 1..=index {
                state.used -= std::mem::take(&mut state.counts[self.slot(gone)]);
            }
        }
        self.set_newest(state, index);
    }

    /// The usage at `now`, without changing the state.
    fn used(&self, state: &Segments, now: Moment) -> u64 {
        if now < state.until {
            return state.used;
        }
        let index = self.index(now.nanos_since(state.origin)).max(state.newest);
        let passed = index - state.newest;
        if passed == 0 {
            return state.used;
        }
        if passed >= u64::from(self.segments) {
            return 0;
        }
        let gone = state.newest + 1..=index;
        state.used - gone.map(|i| state.counts[self.slot(i)]).sum::<u64>()
    }

    /// The moment from which at most `most` is used.
    fn down_to(&self, state: &Segments, most: u64) -> Moment {
        // Each segment that begins pushes out the one a whole window before it: first those behind the newest in the ring,
        // then those from the start of the ring up to the newest.
        let (last, first) = state.counts.split_at(state.slot as usize + 1);
        let (mut used, mut passed) = (state.used, 0);
        for part in [first, last] {
            for count in part {
                if used <= most {
                    break;
                }
                used -= count;
                passed += 1;
            }
        }
        self.start(state.origin, state.newest.saturating_add(passed))
    }
}

impl Rule for SlidingWindow {
    type State = Segments;
    type Fast = Unpacked;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn began(&self) -> Moment {
        self.origin
    }

    fn knows(&self, state: &Segments) -> bool {
        state.slot < self.segments && state.are_sound(self.segments)
    }

    fn begin(&mut self, start: Moment) {
        self.origin = start;
    }

    fn fresh(&self, now: Moment) -> Segments {
        Segments {
            counts: vec![0; self.segments as usize].into_boxed_slice(),
            newest: 0,
            until: self.start(now, 1),
            slot: 0,
            used: 0,
            origin: now,
        }
    }

    fn fresh_key(&self, now: Moment) -> Segments {
        let mut state = self.fresh(self.origin);
        self.set_newest(&mut state, self.index(now.nanos_since(self.origin)));
        state
    }

    #[inline]
    fn take(&self, state: &mut Segments, now: Moment, cost: u64) -> Result<(), Refusal> {
        self.advance(state, now);
        if cost > self.limit.saturating_sub(state.used) {
            let most = self.limit.saturating_sub(cost);
            return Err(Refusal::until(self.down_to(state, most)));
        }
        state.used += cost;
        state.counts[state.slot as usize] += cost;
        Ok(())
    }

    fn peek(&self, state: &Segments, now: Moment, cost: u64) -> Result<(), Refusal> {
        if cost <= self.available(state, now) {
            return Ok(());
        }
        Err(Refusal::until(
            self.down_to(state, self.limit.saturating_sub(cost)),
        ))
    }

    #[inline]
    fn recorded_at(&self, state: &Segments, now: Moment) -> Moment {
        // Usually the newest segment is that of `now`: then it ends no later than a segment's length from now.
        if state.until.nanos_since(now) <= self.shortest {
            return now;
        }
        now.max(self.start(state.origin, state.newest))
    }

    fn available(&self, state: &Segments, now: Moment) -> u64 {
        self.limit.saturating_sub(self.used(state, now))
    }

    fn in_use(&self, state: &Segments, now: Moment) -> u64 {
        self.used(state, now)
    }

    fn refund(&self, state: &mut Segments, now: Moment, taken: Moment, cost: u64) {
        self.advance(state, now);
        let segment = self
            .index(taken.nanos_since(state.origin))
            .min(state.newest);
        if state.newest - segment < u64::from(self.segments) {
            let count = &mut state.counts[self.slot(segment)];
            let back = cost.min(*count);
            *count -= back;
            state.used -= back;
        }
    }

    fn add(&self, state: &mut Segments, now: Moment, amount: u64) {
        self.advance(state, now);
        let mut left = amount.min(state.used);
        state.used -= left;
        // The newest first: their usage would stay in the window for longest.
        for back in 0..u64::from(self.segments).min(state.newest.saturating_add(1)) {
            let count = &mut state.counts[self.slot(state.newest - back)];
            let part = left.min(*count);
            *count -= part;
            left -= part;
        }
    }

    fn full_at(&self, state: &Segments, now: Moment) -> Option<Moment> {
        Some(if self.used(state, now) == 0 {
            now
        } else {
            self.down_to(state, 0)
        })
    }

    fn evictable_from(&self, state: &Segments, now: Moment) -> Option<Moment> {
        // The segments of a new key are counted from the start of the limiter.
        if state.origin == self.origin {
            self.full_at(state, now)
        } else {
            Some(Moment::NEVER)
        }
    }

    fn adopt(&self, old: &Self, state: &Segments, now: Moment, carry: Carry) -> Segments {
        let mut fresh = self.fresh(now);
        let used = carry.used(old.in_use(state, now), old.limit, self.limit);
        fresh.used = used;
        fresh.counts[fresh.slot as usize] = fresh.used;
        fresh
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Found by a comparison of products instead of a division, which every grant paid for.
    #[test]
    fn a_take_is_recorded_at_the_start_of_the_newest_segment_at_the_earliest() {
        let origin = Moment::from_nanos(1_000);
        for (window, segments) in [(60, 5), (60, 7), (1_000_003, 10), (7, 7), (u64::MAX / 5, 9)] {
            let quota = Quota::new(10, Duration::from_nanos(window));
            let mut rule = SlidingWindow::new(quota, segments);
            rule.begin(origin);
            for newest in 0..30 {
                let mut state = rule.fresh(origin);
                let begins = u128::from(newest) * u128::from(window);
                let begins = begins.div_ceil(u128::from(segments));
                let begins = origin.plus_nanos(u64::try_from(begins).unwrap_or(u64::MAX));
                rule.set_newest(&mut state, newest);
                for off in -2..=2 {
                    let now = Moment::from_nanos(begins.as_nanos().saturating_add_signed(off));
                    let recorded = rule.recorded_at(&state, now);
                    assert_eq!(
                        recorded,
                        now.max(begins),
                        "{window}/{segments}, {newest}, {off}"
                    );
                }
            }
        }
    }
}
