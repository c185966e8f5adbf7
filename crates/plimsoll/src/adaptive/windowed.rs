use std::time::Duration;

use super::{Insight, Limit, Load, Sample};
use crate::moment::saturating_nanos;
use crate::{InvalidLimit, Moment};

/// Aggregates samples into windows, and passes one sample per window to another algorithm.
///
/// # How it works
///
/// An algorithm that reacts to every sample also reacts to noise, and the more traffic there is, the faster it moves.
/// So samples are aggregated over windows of time, and the algorithm gets one sample for each window: the mean latency,
/// the maximum number in flight, and whether any work failed.
///
/// A window ends with the first sample after its end time. A window with too few samples is discarded, so the limit
/// does not move while there is hardly any traffic.
///
/// # When to choose it
///
/// With [`Vegas`](super::Vegas) and [`Gradient2`](super::Gradient2) under high traffic: a limit that changes once a
/// second is easier to follow than one that changes with each request. [`Verdict`](super::Verdict) has windows of its
/// own.
///
/// ```
/// use plimsoll::adaptive::{Limit, Vegas, Windowed};
/// use std::time::Duration;
///
/// let limit = Windowed::builder(Vegas::default())
///     .min_window(Duration::from_millis(100))
///     .build()?;
/// assert_eq!(limit.limit(), 20);
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Windowed<L> {
    delegate: L,
    min_window: u64,
    max_window: u64,
    window_size: u64,
    min_rtt: u64,
    /// The end of the window.
    next: Moment,
    /// The start of the work that ended the previous window.
    opened: Moment,
    window: Window,
}

/// The settings of a [`Windowed`]. [`build`](Self::build) checks them and names the first that is invalid.
#[derive(Clone, Debug)]
#[must_use]
pub struct WindowedBuilder<L> {
    delegate: L,
    min_window: Duration,
    max_window: Duration,
    window_size: u32,
    min_rtt: Duration,
}

/// The samples of the current window.
#[derive(Clone, Debug)]
struct Window {
    samples: u64,
    sum: u128,
    least: u64,
    in_flight: u64,
    overload: bool,
    refused: bool,
}

/// The minimum length of a window.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest latency by which a window is extended: a jump of the clock must not delay the next window.
const LONGEST: u64 = 3600 * 1_000_000_000;

impl<L: Limit> Windowed<L> {
    /// Returns a builder with the published defaults: windows of one second with at least ten samples.
    pub const fn builder(delegate: L) -> WindowedBuilder<L> {
        WindowedBuilder {
            delegate,
            min_window: Duration::from_secs(1),
            max_window: Duration::from_secs(1),
            window_size: 10,
            min_rtt: Duration::from_micros(100),
        }
    }

    /// Aggregates samples for `delegate`, with the published defaults: windows of one second with at least ten samples.
    ///
    /// ```
    /// use plimsoll::adaptive::{Gradient2, Limit, Windowed};
    ///
    /// let limit = Windowed::new(Gradient2::default());
    /// assert_eq!(limit.limit(), limit.delegate().limit());
    /// ```
    pub fn new(delegate: L) -> Self {
        Self::builder(delegate).unchecked()
    }

    /// Returns the algorithm that gets the aggregated samples.
    #[must_use]
    pub const fn delegate(&self) -> &L {
        &self.delegate
    }

    #[cold]
    fn close(&mut self, start: Moment, end: Moment) {
        let window = std::mem::replace(&mut self.window, Window::EMPTY);
        let length = window.least.saturating_mul(2);
        let length = length.max(self.min_window).min(self.max_window);
        self.next = end.plus_nanos(length);
        self.opened = start;
        if window.samples < self.window_size {
            return;
        }
        let mean = window.sum / u128::from(window.samples);
        self.delegate.sample(&Sample {
            start,
            end: start.plus_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            in_flight: window.in_flight,
            overload: window.overload,
            refused: window.refused,
            weight: 1,
        });
    }
}

impl<L: Limit> WindowedBuilder<L> {
    /// Sets the minimum length of a window. At least 100 ms. Default: 1 second.
    pub const fn min_window(mut self, window: Duration) -> Self {
        self.min_window = window;
        self
    }

    /// Sets the maximum length of a window. At least 100 ms and the minimum length. Default: 1 second. Between the two,
    /// a window is twice as long as the minimum latency of the previous one.
    pub const fn max_window(mut self, window: Duration) -> Self {
        self.max_window = window;
        self
    }

    /// Sets the minimum number of samples; a window with fewer is discarded. At least 10. Default: 10.
    pub const fn window_size(mut self, samples: u32) -> Self {
        self.window_size = samples;
        self
    }

    /// Sets the minimum latency: shorter samples are ignored. Default: 100 µs.
    pub const fn min_rtt(mut self, latency: Duration) -> Self {
        self.min_rtt = latency;
        self
    }

    /// Builds the algorithm.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is outside the range that its method documents.
    pub fn build(self) -> Result<Windowed<L>, InvalidLimit> {
        let windows = [
            ("min_window", self.min_window),
            ("max_window", self.max_window),
        ];
        for (field, window) in windows {
            if window < SHORTEST {
                let value = format!("{window:?}");
                return Err(InvalidLimit::new(field, value, "at least 100ms"));
            }
        }
        if self.max_window < self.min_window {
            let value = format!("{:?}", self.max_window);
            let rule = "at least the least window";
            return Err(InvalidLimit::new("max_window", value, rule));
        }
        if self.window_size < 10 {
            let rule = "at least 10";
            return Err(InvalidLimit::new("window_size", self.window_size, rule));
        }
        Ok(self.unchecked())
    }

    fn unchecked(self) -> Windowed<L> {
        Windowed {
            delegate: self.delegate,
            min_window: saturating_nanos(self.min_window),
            max_window: saturating_nanos(self.max_window),
            window_size: u64::from(self.window_size),
            min_rtt: saturating_nanos(self.min_rtt),
            next: Moment::ORIGIN,
            opened: Moment::ORIGIN,
            window: Window::EMPTY,
        }
    }
}

impl<L: Limit> Limit for Windowed<L> {
    fn limit(&self) -> u64 {
        self.delegate.limit()
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let latency = sample.end.nanos_since(sample.start);
        if latency < self.min_rtt {
            return;
        }
        let end = sample.start.plus_nanos(latency.min(LONGEST));
        if end < self.opened {
            // The clock stepped back: the window would not end before the old time comes again.
            self.window = Window::EMPTY;
            self.next = Moment::ORIGIN;
        }
        self.window.add(latency, sample);
        if end > self.next {
            self.close(sample.start, end);
        }
    }

    fn tick_every(&self) -> Option<Duration> {
        self.delegate.tick_every()
    }

    fn tick(&mut self, load: Load) {
        self.delegate.tick(load);
    }

    fn queue_bound(&self) -> Option<u64> {
        self.delegate.queue_bound()
    }

    fn insight(&self) -> Insight {
        self.delegate.insight()
    }
}

impl Window {
    const EMPTY: Self = Self {
        samples: 0,
        sum: 0,
        least: u64::MAX,
        in_flight: 0,
        overload: false,
        refused: false,
    };

    #[inline]
    fn add(&mut self, latency: u64, sample: &Sample) {
        self.samples += 1;
        self.sum += u128::from(latency);
        self.least = self.least.min(latency);
        self.in_flight = self.in_flight.max(sample.in_flight);
        self.overload |= sample.overload;
        self.refused |= sample.refused;
    }
}
