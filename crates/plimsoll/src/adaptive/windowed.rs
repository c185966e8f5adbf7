use std::time::Duration;

use super::{Insight, Limit, Load, Sample};
use crate::moment::saturating_nanos;
use crate::{InvalidLimit, Moment};

/// Gathers samples, and shows another algorithm one for each window of time.
///
/// # How it works
///
/// An algorithm that moves with every sample moves with noise, and the faster the more traffic there is. So
/// samples are gathered in windows of time, and the algorithm sees one sample for each window: the mean
/// latency, the most that was in flight, and whether anything failed.
///
/// A window ends with the first sample that ends after its time. One with too few samples says nothing and
/// is thrown away; where there is hardly any traffic the limit therefore never moves.
///
/// # When to choose it
///
/// With [`Vegas`](super::Vegas) and [`Gradient2`](super::Gradient2) where there is much traffic: a limit that moves once a
/// second is easier to follow than one that moves with each request. [`Verdict`](super::Verdict) has windows of its own.
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
    /// When the window ends.
    next: Moment,
    /// When the work began that ended the window before.
    opened: Moment,
    window: Window,
}

/// Settings of a [`Windowed`]. Nothing is checked before [`build`](Self::build), which says what is wrong.
#[derive(Clone, Debug)]
#[must_use]
pub struct WindowedBuilder<L> {
    delegate: L,
    min_window: Duration,
    max_window: Duration,
    window_size: u32,
    min_rtt: Duration,
}

/// What has been gathered.
#[derive(Clone, Debug)]
struct Window {
    samples: u64,
    sum: u128,
    least: u64,
    in_flight: u64,
    overload: bool,
    refused: bool,
}

/// No window is shorter.
const SHORTEST: Duration = Duration::from_millis(100);
/// What seems to have taken longer ends its window no later: a clock that leapt must not hold up the next one.
const LONGEST: u64 = 3600 * 1_000_000_000;

impl<L: Limit> Windowed<L> {
    /// Settings for windows before `delegate`, at first the published defaults.
    pub const fn builder(delegate: L) -> WindowedBuilder<L> {
        WindowedBuilder {
            delegate,
            min_window: Duration::from_secs(1),
            max_window: Duration::from_secs(1),
            window_size: 10,
            min_rtt: Duration::from_micros(100),
        }
    }

    /// Windows before `delegate`, with the published defaults: a second, and at least ten samples.
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

    /// The algorithm behind the windows.
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
    /// The least length of a window, a second unless set. At least 100 ms.
    pub const fn min_window(mut self, window: Duration) -> Self {
        self.min_window = window;
        self
    }

    /// The greatest length of a window, a second unless set. At least 100 ms and the least length. In between a
    /// window is twice as long as the least latency in the one before.
    pub const fn max_window(mut self, window: Duration) -> Self {
        self.max_window = window;
        self
    }

    /// A window with fewer samples is thrown away, 10 unless set. At least 10.
    pub const fn window_size(mut self, samples: u32) -> Self {
        self.window_size = samples;
        self
    }

    /// What took less than this is not looked at, 100 µs unless set.
    pub const fn min_rtt(mut self, latency: Duration) -> Self {
        self.min_rtt = latency;
        self
    }

    /// The algorithm.
    ///
    /// # Errors
    ///
    /// If a setting is outside of what its method allows.
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
            // The clock stepped back: a window that ends by the old time would not end for as long.
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
