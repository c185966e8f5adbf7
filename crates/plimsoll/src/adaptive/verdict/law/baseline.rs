//! The baseline: the latency of a server without a queue, and the evidence for it.

use super::upward::Upward;
use super::{
    ALLOWANCE, CERTAIN, Decision, ENOUGH, FASTEST, HINT, LEAP, Law, PROOF, TELLING, Trial, go,
};
use crate::adaptive::verdict::slope::Slope;
use crate::adaptive::verdict::window::{Latency, Seen};

/// A limit does not bind if no demand was refused and less than this share of it was in use.
const FREE: f64 = 0.5;
/// If more than this share of the limit seems to queue, the baseline is doubtful.
const DOUBTFUL: f64 = 0.5;
/// Latencies within this many standard errors of both measure the same.
const SAME: f64 = 2.0;
/// Growth paid if the throughput grew by the first of these fractions of it, and did not pay below the second.
const PAID: f64 = 0.7;
const UNPAID: f64 = 0.1;
/// More throughput is more if it is more by this factor.
const CLIMBED: f64 = 1.15;
/// A limit that grew explains a latency, unless the latency rose by this factor more.
const EXPLAINED: f64 = 1.02;
/// Above this slope the throughput follows the limit.
const GOES_WITH: f64 = 0.4;
/// Differences of a mean latency within the first number of standard errors may be chance. A quartile below the second factor of
/// the baseline has not changed.
const MEAN_CHANCE: f64 = 3.0;
const UNMOVED: f64 = 1.5;
/// The allowance shrinks by the first of these factors while the slope is below 0, at least to the last: nothing may queue where each
/// piece of work too many makes the server slower (the class `contention` of the example `law`). It recovers by the second factor, or
/// by the third while nothing queues (`oscillation`).
const TIGHTEN: f64 = 0.9;
const RELAX: f64 = 1.02;
const RECOVER: f64 = 1.1;
const TIGHTEST: f64 = 0.01;

/// The weight of a latency below the baseline. A queue makes work slower, never faster, so a latency that is lower by more than
/// chance is nearer to the truth, and half the baseline is the truth.
fn weight(base: f64, latency: Latency) -> f64 {
    let errors = (base - latency.value) / latency.error.max(1.0);
    if errors < 1.0 {
        0.0
    } else if errors < 2.0 {
        HINT
    } else if latency.value < base / 2.0 {
        1.0
    } else {
        PROOF
    }
}

impl Law {
    /// Learns the baseline from an ordinary window.
    pub(super) fn learn(&mut self, seen: &Seen, latency: Latency) -> f64 {
        let free = self.is_free(seen);
        let mut base = self.base.unwrap_or(latency.value);
        self.raises.now_at(base);
        let above = latency.value - base;
        if above < 0.0 && self.probe.is_none() {
            // Of work that was admitted together the short pieces end first: until as much has ended as is in flight, latencies are
            // too low (the class `queue`).
            let short = !self.fresh && seen.count < seen.held;
            let most = if short { HINT } else { 1.0 };
            let weight = weight(base, latency).min(most);
            base += above * weight;
            self.base_error *= 1.0 - weight;
            if weight >= PROOF {
                self.broad = Slope::wide();
            }
        } else if free {
            base += above * HINT;
            self.base_error *= 1.0 - HINT;
        } else if self.limit <= self.found_at && self.probe.is_none() {
            base += self.again_measured(above, latency.error);
        }
        if free || above <= latency.error {
            self.learn_shape(latency.value, free);
        }
        let paid = CLIMBED + CERTAIN / seen.count.sqrt();
        if free || seen.throughput > self.climbed.throughput * paid {
            self.climbed = self.trial(seen, self.mean);
        }
        if free {
            self.was_free = true;
            self.stretched = Upward::at_once();
            self.probes.nothing_queued();
            self.share = 1.0;
            (self.doubtful, self.confounded) = (false, false);
        } else if seen.saturated {
            let queue = seen.throughput * (latency.value - base);
            self.doubtful = queue > DOUBTFUL * self.limit;
            self.probes.count(self.doubtful);
            base = self.check_growth(seen, latency, base);
        }
        self.grown = None;
        self.base = Some(base);
        // The same latency under a larger limit: growth up to that limit explains nothing. Otherwise a server that slows down
        // gradually is taken for a queue, because of the first window (the class `drift` of the simulator's example `law`).
        let again = self.limit > self.anchor.limit && latency.value <= base + latency.error;
        if free || again || base < self.anchor.latency {
            let known = Latency {
                value: base,
                ..latency
            };
            self.anchor = self.trial(seen, known);
        }
        base
    }

    /// Returns the correction of a baseline that one window found, by another window under such a limit: both measured the same, so
    /// each counts by its error. Without it a baseline that was too low by chance stayed, and with it the limit (class `queue`).
    fn again_measured(&mut self, above: f64, error: f64) -> f64 {
        let known = self.base_error;
        if known == 0.0 || above > SAME * known.hypot(error) {
            return 0.0;
        }
        let weight = known * known / (known * known + error * error);
        self.base_error *= (1.0 - weight).sqrt();
        above * weight
    }

    /// Learns the mean as a multiple of the quartile, from a window whose quartile shows no queue. While the limit binds, a part of the
    /// work may wait nevertheless, so a smaller multiple is nearer to the truth.
    fn learn_shape(&mut self, quartile: f64, free: bool) {
        let mean = self.mean;
        // In the middle of the window the server became slower.
        if mean.value - mean.error > self.mean_base.unwrap_or(mean.value) {
            return;
        }
        let shape = mean.value / quartile;
        let weight = match self.shape {
            0.0 => 1.0,
            known if !free && shape < known => PROOF,
            _ => HINT / 2.0,
        };
        self.shape += (shape - self.shape) * weight;
    }

    /// Learns the mean latency without a queue, like the baseline.
    pub(super) fn learn_mean(&mut self, seen: &Seen) {
        let base = self.mean_base.unwrap_or(self.mean.value);
        let above = self.mean.value - base;
        let weight = if above < 0.0 {
            weight(base, self.mean)
        } else if self.is_free(seen) {
            HINT
        } else {
            0.0
        };
        self.mean_base = Some(base + above * weight);
    }

    /// Returns the excess of the latency over the baseline. If less than three quarters of the work waits, only the mean shows it: work
    /// that arrives in batches as large as the pool (`contention`), or a station that only a part of the work needs (`shared_pool`). The
    /// mean counts beyond chance and above the allowance. If the quartile rose as well, the server may have become slower, which
    /// raises the mean by more than the quartile.
    pub(super) fn late(&self, latency: f64, base: f64, allowed: f64) -> f64 {
        let late = latency - base;
        let by_mean = self.mean.value
            - self.mean_base.unwrap_or(self.mean.value)
            - MEAN_CHANCE * self.mean.error;
        if latency < UNMOVED * base && by_mean > allowed {
            late.max(by_mean)
        } else {
            late
        }
    }

    fn is_free(&self, seen: &Seen) -> bool {
        !seen.saturated && seen.peak < FREE * self.limit
    }

    /// Raises the baseline to a latency measured under a limit of `top`. Limits that share a server can take throughput from
    /// each other, and cause the latency together. So the growth of the limit since the baseline was last confirmed does not
    /// justify a higher one, and others are believed ever more rarely.
    pub(super) fn raise(&mut self, found: Latency, top: f64, throughput: f64) -> bool {
        let latency = found.value;
        let anchor = self.anchor;
        let more = (throughput / anchor.throughput).max(1.0);
        let noise = 1.0 + 1.0 / anchor.count.max(1.0).sqrt();
        let grown = (top / anchor.limit / (more * noise)).max(1.0);
        let explained = latency / anchor.latency < EXPLAINED * grown.powf(1.5);
        self.confounded = explained || !self.raises.may(self.now, latency);
        if self.confounded {
            return false;
        }
        let base = self.base.unwrap_or(latency);
        self.raises.raised(self.now, base, latency);
        // After small steps this limit may cause the latency itself.
        let rise = latency / anchor.latency;
        if rise > LEAP {
            // The throughput of the faster server says nothing about this one.
            self.broad = Slope::wide();
            // The past demand needs a larger limit; a server that was full stays full.
            self.climbed.limit *= if self.asked > 0.0 { rise } else { 1.0 };
            self.climbed.latency *= rise;
            self.anchor = Trial {
                limit: top,
                throughput,
                latency,
                count: 0.0,
            };
        }
        self.base = Some(latency);
        self.base_error = found.error;
        self.found_at = self.limit;
        self.mean_base = self.mean_base.map(|base| base.max(self.mean.value));
        true
    }

    /// Returns whether the last growth brought throughput. If it did, nothing queued.
    fn check_growth(&mut self, seen: &Seen, latency: Latency, base: f64) -> f64 {
        let Some((limit, throughput, count)) = self.grown else {
            return base;
        };
        let growth = self.limit / limit;
        let noise = (1.0 / count + 1.0 / seen.count).sqrt();
        // A smaller step is lost in noise.
        if growth.ln() < TELLING * noise {
            return base;
        }
        let paid = (seen.throughput / throughput - 1.0) / (growth - 1.0);
        // Soon after a rise of the baseline it may be throughput taken from other limits.
        if paid > PAID && (self.fresh || self.raises.may(self.now, latency.value)) {
            self.probes.growth_paid();
            // The limit did not cause a leap: the server has changed, and half of that is true neither before nor after.
            if latency.value > LEAP * base {
                return base;
            }
            // The larger limit may have reached the knee on the way.
            self.mean_base = self
                .mean_base
                .map(|base| base + (self.mean.value - base).max(0.0) * PROOF);
            return base + (latency.value - base).max(0.0) * PROOF;
        }
        if paid < UNPAID {
            self.probes.growth_failed();
            self.met_a_queue();
        }
        base
    }

    /// Learns from the slope of the throughput by the limit.
    pub(super) fn watch_slope(
        &mut self,
        seen: &Seen,
        latency: Latency,
        queue: f64,
    ) -> Option<Decision> {
        if !seen.saturated || self.probe.is_some() {
            return None;
        }
        self.slope.add(self.limit, seen.throughput, seen.count);
        self.broad.add(self.limit, seen.throughput, seen.count);
        let falls = |slope: Slope| {
            let estimate = slope.estimate();
            estimate.is_some_and(|slope| slope.value + CERTAIN * slope.error < 0.0)
        };
        if falls(self.slope) || falls(self.broad) {
            self.share = (self.share * TIGHTEN).max(TIGHTEST);
        } else {
            let relax = if queue <= 0.0 { RECOVER } else { RELAX };
            self.share = (self.share * relax).min(1.0);
        }
        let slope = self.slope.estimate();
        let goes_with = slope.is_some_and(|slope| slope.value - CERTAIN * slope.error > GOES_WITH);
        if !goes_with || queue < ALLOWANCE * ENOUGH {
            return None;
        }
        if !self.raise(latency, self.limit, seen.throughput) {
            return None;
        }
        self.slope = Slope::new();
        self.more = None;
        self.probes.learnt();
        self.end_squeeze();
        self.step = self.limit * FASTEST * 0.5;
        Some(go(
            self.limit + self.step,
            "grow: throughput goes with the limit",
        ))
    }
}
