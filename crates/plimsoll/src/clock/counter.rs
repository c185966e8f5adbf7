//! The processor's counter, disciplined by the kernel's clock.
//!
//! Counters are fast and drift; and they jump, when a machine was suspended or moved to another host, or when two cores
//! disagree. So a reading only counts from a recent *anchor*: a count and the kernel's time at that count, at most
//! [`SPAN_NANOS`] away. A thread that finds the anchor further away (a jump in either direction looks the same: the
//! difference wraps) asks the kernel, and stores a new anchor. So a jump moves a reading by at most that span, and for
//! no longer than the counter takes to count it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The longest distance from its anchor at which the counter is used.
pub(super) const SPAN_NANOS: u64 = 10_000_000;

const SCALE_BITS: u32 = 40;

pub(super) struct Counter {
    clock: quanta::Clock,
    /// Nanoseconds for each count, times 2^[`SCALE_BITS`].
    scale: u64,
    /// [`SPAN_NANOS`] in counts.
    span: u64,
    /// The count of the anchor.
    anchor: AtomicU64,
    /// The offset that is added to the counter to get the time, in nanoseconds and modulo 2^64.
    ///
    /// Written before the anchor and read after it: a thread that sees an anchor sees its offset, or a later one. A
    /// thread that sees an older anchor finds that it is too far away, or that both offsets will do.
    offset: AtomicU64,
    /// Whether a thread is changing the anchor and the offset.
    changing: AtomicBool,
}

impl Counter {
    /// `time` is what the counter would show now if it were right.
    pub(super) fn new(clock: quanta::Clock, time: impl Fn() -> u64) -> Self {
        // Over a long stretch, so that its length in nanoseconds is known to many digits. What `quanta` knows of
        // the counter's speed is taken over once, which spares two questions at each reading.
        let stretch = 1 << 50;
        let nanos = u128::from(clock.delta_as_nanos(0, stretch)).max(1);
        let scale = (nanos << SCALE_BITS) / u128::from(stretch);
        let span = u128::from(SPAN_NANOS) * u128::from(stretch) / nanos;
        let span = u64::try_from(span).unwrap_or(u64::MAX);
        let counter = Self {
            scale: u64::try_from(scale).unwrap_or(u64::MAX),
            span,
            // An anchor that is too far away: the first reading stores another.
            anchor: AtomicU64::new(clock.raw().wrapping_sub(span).wrapping_sub(1)),
            offset: AtomicU64::new(0),
            changing: AtomicBool::new(false),
            clock,
        };
        counter.correct(time);
        counter
    }

    /// The time, on the scale of `kernel`, the precise clock of the kernel.
    #[inline]
    pub(super) fn now(&self, kernel: impl Fn() -> u64) -> u64 {
        let anchor = self.anchor.load(Ordering::Acquire);
        let offset = self.offset.load(Ordering::Relaxed);
        let count = self.clock.raw();
        if count.wrapping_sub(anchor) > self.span {
            return self.correct(kernel);
        }
        self.nanos(count).wrapping_add(offset)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "modulo 2^64, as the offset is"
    )]
    fn nanos(&self, count: u64) -> u64 {
        ((u128::from(count) * u128::from(self.scale)) >> SCALE_BITS) as u64
    }

    /// Reads the kernel's clock, and stores the reading as an anchor.
    #[cold]
    fn correct(&self, kernel: impl Fn() -> u64) -> u64 {
        // One thread at a time reads and writes, so that no anchor is replaced by an older one.
        let mine = !self.changing.swap(true, Ordering::Acquire);
        let before = self.clock.raw();
        let now = kernel();
        let count = self.clock.raw();
        if !mine {
            return now;
        }
        // A thread that was preempted between the two readings has a pair that does not belong together.
        if count.wrapping_sub(before) <= self.span / 1000 {
            let offset = now.wrapping_sub(self.nanos(count));
            self.offset.store(offset, Ordering::Relaxed);
            self.anchor.store(count, Ordering::Release);
        }
        self.changing.store(false, Ordering::Release);
        now
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::{Counter, SPAN_NANOS};

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn counters_that_jump_neither_freeze_time_nor_make_it_leap() {
        let (clock, counted) = quanta::Clock::mock();
        counted.increment(500 * HOUR);
        let kernel = Cell::new(7 * HOUR);
        let counter = Counter::new(clock, || kernel.get());
        let mut last = 0;
        // Spans that pass, and jumps of the counter in addition to counting them.
        let jumps: [i64; 9] = [
            0,
            1,
            HOUR.cast_signed(),
            -1,
            -1_000_000,
            -(2 * HOUR).cast_signed(),
            9_000_000,
            -9_000_000,
            0,
        ];
        for passed in [0, 1, 1000, 3_000_000, 9_999_999, 20_000_000, HOUR] {
            for jump in jumps {
                kernel.set(kernel.get() + passed);
                counted.increment(passed);
                match u64::try_from(jump) {
                    Ok(ahead) => counted.increment(ahead),
                    Err(_) => counted.decrement(jump.unsigned_abs()),
                }
                let now = counter.now(|| kernel.get());
                assert!(now.abs_diff(kernel.get()) <= SPAN_NANOS, "{passed} {jump}");
                // A span later the time is right again.
                for _ in 0..3 {
                    kernel.set(kernel.get() + SPAN_NANOS);
                    counted.increment(SPAN_NANOS);
                    last = counter.now(|| kernel.get());
                }
                assert!(last.abs_diff(kernel.get()) <= 1, "{passed} {jump}");
            }
        }
        assert!(last > 7 * HOUR);
    }

    /// A counter that runs at another speed than assumed, as after a move to another host.
    #[test]
    fn a_counter_that_drifts_is_put_right_at_every_anchor() {
        for (numerator, denominator) in [(2, 1), (1, 2), (11, 10), (999, 1000)] {
            let (clock, counted) = quanta::Clock::mock();
            counted.increment(HOUR);
            let kernel = Cell::new(HOUR);
            let counter = Counter::new(clock, || kernel.get());
            for _ in 0..10_000 {
                kernel.set(kernel.get() + 100_000);
                counted.increment(100_000 * numerator / denominator);
                let now = counter.now(|| kernel.get());
                assert!(now.abs_diff(kernel.get()) <= SPAN_NANOS + 100_000);
            }
        }
    }
}
