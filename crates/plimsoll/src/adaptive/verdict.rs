//! PLACEHOLDER

mod builder;
mod law;
mod probes;
mod slope;
mod window;

pub use builder::VerdictBuilder;

use std::fmt;
use std::time::Duration;

use self::law::Law;
use self::window::Window;
use super::{Insight, Limit, Sample};

/// Finds the limit by queueing delay, and verifies that the delay is its own doing.
pub struct Verdict {
    law: Law,
    window: Window,
    min: f64,
    max: f64,
    signal: Option<f64>,
    decision: &'static str,
}

impl Verdict {
    /// Starts with 20, and stays within 1 and 1000.
    #[must_use]
    pub const fn new() -> Self {
        Self::within(20, 1, 1_000)
    }

    /// With other bounds.
    pub const fn builder() -> VerdictBuilder {
        VerdictBuilder::new()
    }

    const fn within(initial: u32, min: u32, max: u32) -> Self {
        let (min, max) = (min as f64, max as f64);
        Self {
            law: Law::new(initial as f64, min),
            window: Window::new(),
            min,
            max,
            signal: None,
            decision: "start",
        }
    }
}

impl Default for Verdict {
    fn default() -> Self {
        Self::new()
    }
}

impl Limit for Verdict {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a limit lies between two numbers of 32 bits, the smaller at least 1"
    )]
    fn limit(&self) -> u32 {
        self.law.limit() as u32
    }

    #[inline]
    fn sample(&mut self, sample: &Sample) {
        let before = self.law.limit();
        let Some(seen) = self.window.add(sample, before, self.law.base()) else {
            return;
        };
        let decision = self.law.decide(&seen);
        let limit = decision.limit.clamp(self.min, self.max);
        if limit < before {
            self.window.pass_over(sample.in_flight);
        }
        self.law.set(limit);
        self.signal = seen.latency.map(|latency| latency.value).or(self.signal);
        self.decision = decision.reason;
    }

    fn insight(&self) -> Insight {
        let span = |nanos: f64| Duration::from_secs_f64(nanos / 1e9);
        Insight {
            baseline: self.law.base().map(span),
            signal: self.signal.map(span),
            decision: self.decision,
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("limit", &self.law.limit())
            .field("insight", &self.insight())
            .finish_non_exhaustive()
    }
}
