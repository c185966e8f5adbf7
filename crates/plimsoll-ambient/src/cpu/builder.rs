use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::InvalidLimit;

use super::{CpuGauge, CpuLimiter, Load, Smooth};
use crate::limiter::ambient_settings;
use crate::source::CpuSource;
use crate::watch::{Gauge, Settings, Watch};
use crate::{BuildError, Sampler};

/// The settings of a [`CpuLimiter`]. [`CpuLimiter::builder`] returns them.
///
/// ```
/// use plimsoll::{ManualClock, Queue};
/// use plimsoll_ambient::{CpuLimiter, CpuReading, Sampler};
/// use std::time::Duration;
///
/// let sampler = Sampler::new(ManualClock::new().clock());
/// let cpu = CpuLimiter::builder(90)
///     .source(|| Ok(CpuReading { used: Duration::ZERO, cores: 2.0 }))
///     .smoothing(Duration::from_secs(2))
///     .queue(Queue::fifo(100).timeout(Duration::from_secs(1)))
///     .build(&sampler)?;
/// assert_eq!(cpu.load(), 0.0);
/// # Ok::<(), plimsoll_ambient::BuildError>(())
/// ```
#[must_use]
pub struct CpuLimiterBuilder {
    percent: u8,
    smoothing: Duration,
    source: Option<Box<dyn CpuSource>>,
    settings: Settings,
}

ambient_settings!(CpuLimiterBuilder);

impl CpuLimiter {
    /// Returns a builder of a limiter that is saturated at `percent` of the processor time.
    pub fn builder(percent: u8) -> CpuLimiterBuilder {
        CpuLimiterBuilder {
            percent,
            smoothing: Duration::from_secs(5),
            source: None,
            settings: Settings::default(),
        }
    }
}

impl CpuLimiterBuilder {
    /// Sets the time constant of the average; 0 switches smoothing off. Default: 5 s.
    ///
    /// When the load changes from idle to full, a threshold of `p` percent is reached after `-ln(1 - p/100)` times this
    /// constant: 80 % after 1.6 times, 95 % after 3 times. 100 % is reached only without smoothing.
    pub fn smoothing(mut self, constant: Duration) -> Self {
        self.smoothing = constant;
        self
    }

    /// Sets the source. Default: the cgroup if it has a quota, otherwise the process.
    pub fn source(mut self, source: impl CpuSource + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Builds the limiter, takes its first reading and adds it to `sampler`.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`](BuildError::Invalid): a threshold of 0 or above 100 percent, or a check interval of 0.
    /// [`Source`](BuildError::Source): the first measurement failed.
    pub fn build(self, sampler: &Sampler) -> Result<CpuLimiter, BuildError> {
        self.settings.check()?;
        if !(1..=100).contains(&self.percent) {
            let given = format!("{}%", self.percent);
            return Err(InvalidLimit::new("threshold", given, "1% to 100%").into());
        }
        let source = match self.source {
            Some(source) => source,
            None => sampler.cpu()?,
        };
        let load = Arc::new(Load::default());
        let mut gauge = CpuGauge {
            source,
            threshold: f64::from(self.percent) / 100.0,
            average: Smooth::new(self.smoothing),
            before: None,
            load: Arc::clone(&load),
        };
        let clock = sampler.clock().clone();
        let now = clock.precise_now();
        let first = (now, gauge.measure(now)?);
        let watch = Watch::new(&self.settings, clock, Box::new(gauge), first);
        sampler.register(&watch);
        Ok(CpuLimiter { watch, load })
    }
}

impl fmt::Debug for CpuLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuLimiterBuilder")
            .field("percent", &self.percent)
            .field("smoothing", &self.smoothing)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
