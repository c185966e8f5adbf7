//! The processor limiter.

mod builder;
mod smooth;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::Moment;

pub use builder::CpuLimiterBuilder;

use crate::limiter::ambient_limiter;
use crate::source::{CpuReading, CpuSource};
use crate::watch::{Gauge, Watch};
use crate::{Level, SourceError};
use smooth::Smooth;

/// A limiter that is saturated while too much processor time is in use. Clones share their state.
///
/// A sample is the fraction of the available time that was used since the last sample. Samples are averaged
/// exponentially: after one [`smoothing`](CpuLimiterBuilder::smoothing) time, 63 % of the average is new, however often
/// samples are taken. The limiter is saturated while the average is at or above the threshold. The average starts at 0,
/// so a busy start-up does not saturate it at once.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_ambient::{CpuLimiter, MachineCpu, Sampler};
/// use std::time::Duration;
///
/// # if cfg!(target_os = "linux") {
/// let sampler = Sampler::new(Clock::system());
/// let container = CpuLimiter::builder(90).name("cpu").build(&sampler)?;
/// let machine = CpuLimiter::builder(80)
///     .source(MachineCpu::new()?)
///     .check_interval(Duration::from_millis(250))
///     .smoothing(Duration::from_secs(3))
///     .build(&sampler)?;
/// let _sampling = sampler.spawn()?;
/// println!("{:.0} %, {:.0} %", 100.0 * container.load(), 100.0 * machine.load());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is measured
///
/// By default the processor time of the [cgroup](crate::CgroupCpu) if it has a quota, otherwise that of the
/// [process](crate::ProcessCpu).
///
/// # When it opens again
///
/// It opens again with the first average below the threshold. The smoothing prevents flapping.
#[derive(Clone)]
pub struct CpuLimiter {
    watch: Arc<Watch>,
    load: Arc<Load>,
}

/// A share, as the bits of a float.
#[derive(Default)]
struct Load(AtomicU64);

impl Load {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, load: f64) {
        self.0.store(load.to_bits(), Ordering::Relaxed);
    }
}

impl CpuLimiter {
    /// Returns the average load: 0 is idle, 1 is all available time. It can exceed 1 for a moment where quotas allow
    /// bursts.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.load.get()
    }
}

ambient_limiter!(CpuLimiter);

impl fmt::Debug for CpuLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuLimiter")
            .field("name", &self.watch.name())
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}

struct CpuGauge {
    source: Box<dyn CpuSource>,
    threshold: f64,
    average: Smooth,
    /// The last reading and its moment.
    before: Option<(Moment, CpuReading)>,
    load: Arc<Load>,
}

impl Gauge for CpuGauge {
    fn measure(&mut self, now: Moment) -> Result<Level, SourceError> {
        let reading = self.source.read()?;
        if !(reading.cores.is_finite() && reading.cores > 0.0) {
            return Err(SourceError::new("the source says there are no processors"));
        }
        let step = self.before.map(|(then, before)| {
            // A counter that goes backwards is a different one: the process was moved to another cgroup.
            (now.since(then), reading.used.saturating_sub(before.used))
        });
        match step {
            Some((elapsed, used)) if !elapsed.is_zero() => {
                let there_was = elapsed.as_secs_f64() * reading.cores;
                self.average.add(used.as_secs_f64() / there_was, elapsed);
                self.before = Some((now, reading));
            }
            // No time has passed; the used time counts in the next sample.
            Some(_) => {}
            None => self.before = Some((now, reading)),
        }
        self.load.set(self.average.value());
        Ok(if self.average.value() >= self.threshold {
            Level::Soft
        } else {
            Level::Normal
        })
    }
}
