//! One decision for each window.

mod baseline;
mod bursts;
mod growth;
mod squeeze;
#[cfg(test)]
mod tests;
mod trial;
mod upward;

use super::failures::{Ask, Failures};
use super::probes::Probes;
use super::raises::Raises;
use super::slope::Slope;
use super::window::{Asks, Latency, Seen};
use bursts::Bursts;
use trial::Trial;
use upward::Upward;

/// The allowance: how much work may queue, so that a server with few workers finds the next piece as soon as it is done.
const ALLOWANCE: f64 = 5.0;
/// The baseline has an error of about a tenth, and so has the queue of a large limit.
const DOUBT: f64 = 0.1;
/// Above this share of the allowance the limit stays where it is.
const ENOUGH: f64 = 0.5;
/// A window lasts for this many latencies: throughput means little before work that began in the window has ended in it. Until
/// the first queue only the latency counts.
const SPANS: f64 = 2.0;
/// A window has at least this many samples, and a quarter of the limit more. A second look and a trial of a larger limit have more by
/// the last factor: with fewer samples, chance decided whether the server had changed (`slow_dependency_x20`, `shed_pool`).
const MIN_SAMPLES: f64 = 15.0;
const SAMPLES_PER_SLOT: f64 = 0.25;
const AGAIN: f64 = 2.0;
/// Differences of a latency within this many standard errors may be chance.
const CHANCE: f64 = 1.5;
/// A slope is certain beyond this many standard errors.
const CERTAIN: f64 = 1.5;
/// A step of this many standard errors of the throughput decides.
const TELLING: f64 = 2.0;
/// The weights of a window that suggests a baseline, and of one that proves it.
const HINT: f64 = 0.1;
const PROOF: f64 = 0.5;
/// The limit grows by at most this share in a window.
const FASTEST: f64 = 0.5;
/// Limits that grow in small steps do not cause a leap of the latency by this factor.
const LEAP: f64 = 2.5;

/// Work ends unheard if this many times the work that the samples account for is in flight.
const UNHEARD: f64 = 3.0;

/// A decision, with its reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) limit: f64,
    pub(super) reason: &'static str,
}

const fn go(limit: f64, reason: &'static str) -> Decision {
    Decision { limit, reason }
}

/// The state of the law.
#[derive(Clone, Debug)]
pub(super) struct Law {
    limit: f64,
    min: f64,
    /// When the last window closed.
    now: f64,
    /// The latency of a server without a queue, in nanoseconds.
    base: Option<f64>,
    /// Its standard error, if it was found in one window.
    base_error: f64,
    /// The limit under which it was found: nothing queued under that.
    found_at: f64,
    /// Its mean latency, and that of this window.
    mean_base: Option<f64>,
    mean: Latency,
    /// The mean latency as a multiple of the quartile while nothing queued, 0 if something always did.
    shape: f64,
    /// Whether there was a window in which the limit did not bind.
    was_free: bool,
    raises: Raises,
    probes: Probes,
    failures: Failures,
    slope: Slope,
    /// The same, over leaps of the limit.
    broad: Slope,
    /// The throughput while the limit did not bind, 0 if it did although nothing queued.
    asked: f64,
    /// The latency of the window before, and its limit.
    last: f64,
    last_limit: f64,
    /// Whether to look again, at once.
    again: bool,
    /// Whether the last window was such a look.
    looked: bool,
    /// What is left of the allowance where more work makes the server slower.
    share: f64,
    /// Whether there has been no queue yet.
    fresh: bool,
    /// The speed of growth, 0 after a queue.
    step: f64,
    /// Windows without a refusal.
    quiet: u32,
    bursts: Bursts,
    /// The limit before it grew, with the throughput and its number of samples.
    grown: Option<(f64, f64, f64)>,
    /// The last measurement without a queue.
    anchor: Trial,
    /// The last measurement in which more work brought more throughput, with the mean latency.
    climbed: Trial,
    /// The measurement before a probe.
    probe: Option<Trial>,
    /// The measurement of the second window of a squeeze, and the limit before the first.
    squeeze: Option<Trial>,
    top: Option<f64>,
    /// The schedules of trials of a larger limit, by their reason, and the measurement before one.
    upward: Upward,
    stretched: Upward,
    more: Option<Trial>,
    /// Whether most of the work in flight seems to queue, and whether a latency rose with the limit.
    doubtful: bool,
    confounded: bool,
}

/// A window, interpreted by the state of the law.
#[derive(Clone, Copy)]
struct Read {
    seen: Seen,
    latency: Latency,
    /// How much of the work in flight queues.
    queue: f64,
    /// How much may, and how much may seem to.
    spare: f64,
    allowance: f64,
}

impl Law {
    pub(super) const fn new(limit: f64, min: f64) -> Self {
        Self {
            limit,
            min,
            now: 0.0,
            base: None,
            base_error: 0.0,
            found_at: 0.0,
            mean_base: None,
            mean: Latency {
                value: 0.0,
                error: 0.0,
            },
            shape: 0.0,
            was_free: false,
            raises: Raises::new(),
            probes: Probes::new(),
            failures: Failures::new(),
            slope: Slope::new(),
            broad: Slope::wide(),
            asked: 0.0,
            last: f64::INFINITY,
            last_limit: f64::INFINITY,
            again: false,
            looked: false,
            share: 1.0,
            fresh: true,
            step: 0.0,
            quiet: 0,
            bursts: Bursts::new(),
            grown: None,
            anchor: Trial::NONE,
            climbed: Trial::NONE,
            probe: None,
            squeeze: None,
            top: None,
            upward: Upward::new(),
            stretched: Upward::at_once(),
            more: None,
            doubtful: false,
            confounded: false,
        }
    }

    pub(super) const fn limit(&self) -> f64 {
        self.limit
    }

    pub(super) const fn base(&self) -> Option<f64> {
        self.base
    }

    /// Returns the reason for which the law is uncertain, if it is.
    pub(super) const fn doubt(&self) -> Option<&'static str> {
        if self.confounded {
            Some("the latency rose with the limit: others may share the server")
        } else if self.doubtful {
            Some("most of what is in flight seems to queue: the baseline may be too low")
        } else {
            None
        }
    }

    /// Returns the samples and the time that the next window needs.
    pub(super) const fn asks(&self) -> Asks {
        Asks {
            samples: self.samples(),
            spans: self.spans(),
        }
    }

    /// Returns the number of latencies that a window lasts.
    const fn spans(&self) -> f64 {
        if self.again {
            0.0
        } else if self.fresh {
            1.0
        } else {
            SPANS
        }
    }

    /// Returns the number of samples in a window.
    const fn samples(&self) -> f64 {
        let least = MIN_SAMPLES + SAMPLES_PER_SLOT * self.limit;
        if self.again || self.more.is_some() {
            least * AGAIN
        } else {
            least
        }
    }

    /// Records the limit after a decision.
    pub(super) const fn set(&mut self, limit: f64) {
        self.limit = limit;
    }

    pub(super) fn decide(&mut self, seen: &Seen) -> Decision {
        self.now = seen.closed;
        let was_quiet = self.quiet > 0;
        self.looked = self.again;
        self.again = false;
        self.quiet = if seen.saturated {
            0
        } else {
            self.quiet.saturating_add(1)
        };
        let failures = self.failures.judge(seen, self.limit, self.base);
        let Some(latency) = seen.latency else {
            return self.without_latency(failures);
        };
        self.mean = Latency {
            value: seen.time,
            error: seen.time_error,
        };
        self.learn_mean(seen);
        let base = self.learn(seen, latency);
        // Work that ends unheard is late as well.
        let unheard = if seen.unheard() > UNHEARD {
            seen.unheard()
        } else {
            1.0
        };
        let allowed = ALLOWANCE.max(DOUBT * seen.throughput * base);
        let late = self.late(latency.value, base, allowed / seen.throughput);
        let queue = unheard * seen.throughput * late;
        if let Some(decision) = self.watch_slope(seen, latency, queue) {
            return decision;
        }
        // At first the baseline is as uncertain as the latency.
        let chance = if self.fresh { 2.0 * CHANCE } else { CHANCE };
        let read = Read {
            seen: *seen,
            latency,
            queue,
            spare: allowed * self.share,
            allowance: allowed * self.share
                + chance * seen.throughput * latency.error.hypot(self.base_error),
        };
        if !seen.saturated {
            self.asked = seen.throughput;
        } else if queue <= read.allowance && !was_quiet && latency.value < LEAP * base {
            // The demand is higher. If the latency leapt, the server has changed.
            self.asked = 0.0;
        }
        let in_force = self.limit;
        let decision = self.decide_by(&read, failures);
        (self.last, self.last_limit) = (latency.value, in_force);
        decision
    }

    fn decide_by(&mut self, read: &Read, failures: Ask) -> Decision {
        let (seen, queue) = (&read.seen, read.queue);
        if let Some(decision) = self.end_more(read) {
            return decision;
        }
        if let Some(before) = self.probe.take() {
            return self.end_probe(&before, read);
        }
        if let Ask::BackTo(limit) = failures {
            return self.not_ours(limit);
        }
        if let Some(decision) = self.watch_burst(read, failures) {
            return decision;
        }
        if let Some(decision) = self.try_stretched(read) {
            return decision;
        }
        if let Some(decision) = self.judge(read) {
            return decision;
        }
        if seen.saturated && queue > read.allowance {
            return self.cut(read);
        }
        if let Ask::AtMost(limit) = failures {
            return self.back_off(limit);
        }
        if let Some(decision) = self.try_more(read) {
            return decision;
        }
        self.leave_squeeze(read);
        if seen.saturated && !self.fresh && self.probes.is_due() && self.limit > self.min {
            return self.begin_probe(read);
        }
        self.grow(read)
    }

    /// Returns whether the next window is compared with this one under a larger limit.
    pub(super) const fn tries(&self) -> bool {
        self.more.is_some()
    }

    const fn keep(&self, reason: &'static str) -> Decision {
        go(self.limit, reason)
    }

    /// Decides a window with failures only: their duration means nothing.
    fn without_latency(&mut self, failures: Ask) -> Decision {
        self.probe = None;
        self.more = None;
        match failures {
            Ask::Nothing => self.keep("keep: no latency"),
            Ask::AtMost(limit) => self.back_off(limit),
            Ask::BackTo(limit) => self.not_ours(limit),
        }
    }

    fn back_off(&mut self, limit: f64) -> Decision {
        self.met_a_queue();
        go(limit, "cut: overload")
    }

    fn not_ours(&mut self, limit: f64) -> Decision {
        self.end_squeeze();
        go(limit, "restore: failures are not ours")
    }

    const fn met_a_queue(&mut self) {
        self.fresh = false;
        self.step = 0.0;
    }

    const fn trial(&self, seen: &Seen, latency: Latency) -> Trial {
        Trial {
            limit: self.limit,
            throughput: seen.throughput,
            latency: latency.value,
            count: seen.count,
        }
    }
}
