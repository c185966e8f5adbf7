//! The latency of a server without a queue: what is believed of it, and why.

use super::upward::Upward;
use super::{
    ALLOWANCE, CERTAIN, Decision, ENOUGH, FASTEST, HINT, LEAP, Law, PROOF, TELLING, Trial, go,
};
use crate::adaptive::verdict::slope::Slope;
use crate::adaptive::verdict::window::{Latency, Seen};

/// A limit was not in the way if nobody was refused and less than this share of it was in use.
const FREE: f64 = 0.5;
/// Where more than this share of the limit seems to queue, the baseline is doubtful.
const DOUBTFUL: f64 = 0.5;
/// What growth that paid weighs.
const LESS_THAN_PROOF: f64 = 0.3;
/// Growth paid if throughput grew by this share of it, and did not if by less than the second.
const PAID: f64 = 0.7;
const UNPAID: f64 = 0.1;
/// More brings more if it is by this factor.
const CLIMBED: f64 = 1.15;
/// A latency is explained by a limit that grew unless it rose by this factor more.
const EXPLAINED: f64 = 1.02;
/// A slope above this is throughput that goes with the limit.
const GOES_WITH: f64 = 0.4;
/// So many standard errors of a mean latency may be chance, and a quartile below this factor of the baseline is where it was.
const MEAN_CHANCE: f64 = 3.0;
const UNMOVED: f64 = 1.5;
/// The allowance shrinks where a slope is below 0 by so many of its standard errors: windows of a small server are noisy, and a slope that is
/// certain comes too late (the class `contention` of the example `law`).
const SUGGESTED: f64 = 1.0;
/// The allowance shrinks by the first of these factors, to the last at the least, and recovers by the second, or the third while nothing
/// queues (`oscillation`).
const TIGHTEN: f64 = 0.9;
const RELAX: f64 = 1.02;
const RECOVER: f64 = 1.1;
const TIGHTEST: f64 = 0.15;

/// What a latency below the baseline weighs. A queue makes work slower, never faster, so a latency below by more than
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
    /// Learns the baseline from a window that shows it in passing.
    pub(super) fn learn(&mut self, seen: &Seen, latency: Latency) -> f64 {
        let free = self.is_free(seen);
        let mut base = self.base.unwrap_or(latency.value);
        self.raises.now_at(base);
        let above = latency.value - base;
        if above < 0.0 && self.probe.is_none() {
            // Of what was let in at once the short work ends first: until as much ended as is in flight, latencies are too low (the class
            // `queue`).
            let short = !self.fresh && seen.count < seen.held;
            let most = if short { HINT } else { 1.0 };
            base += above * weight(base, latency).min(most);
        } else if free {
            base += above * HINT;
        }
        let paid = CLIMBED + CERTAIN / seen.count.sqrt();
        if free || seen.throughput > self.climbed.throughput * paid {
            self.climbed = self.trial(seen, seen.mean / seen.throughput);
        }
        if free {
            let shape = self.mean.value / latency.value;
            let weight = if self.shape == 0.0 { 1.0 } else { HINT / 2.0 };
            self.shape += (shape - self.shape) * weight;
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
        // As fast under a larger limit: growth up to that one explains nothing. Otherwise a server that becomes slower little by little is
        // taken for a queue, because of what the first window had (the class `drift` of the simulator's example `law`).
        let again = self.limit > self.anchor.limit && latency.value <= base + latency.error;
        if free || again || base < self.anchor.latency {
            self.anchor = self.trial(seen, base);
        }
        base
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

    /// By how much the latency is above the baseline. Where less than three quarters of the work waits, the quartile shows nothing, and the mean
    /// does: work that comes in batches as large as the pool (`contention`), a station that only a part of it needs
    /// (`shared_pool`). It counts where it is more than chance and more than what may wait. Where the quartile rose as well the server
    /// may have become slower, which the mean shows by more than the quartile.
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

    /// Raises the baseline to a latency that was seen under a limit of `top`. Where several limits share a server, each
    /// can take throughput from the others, and all of them together make the latency: what the limit grew by since
    /// the baseline was last seen is no reason for another one, and others are believed ever more rarely.
    pub(super) fn raise(&mut self, latency: f64, top: f64, throughput: f64) -> bool {
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
        // By small steps it may be we who make the latency.
        let rise = latency / anchor.latency;
        if rise > LEAP {
            // What was asked for needs more; a server that was full is as full as it was.
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
        self.mean_base = self.mean_base.map(|base| base.max(self.mean.value));
        true
    }

    /// Whether the last growth brought throughput. If it did, nothing queued.
    fn check_growth(&mut self, seen: &Seen, latency: Latency, base: f64) -> f64 {
        let Some((limit, throughput, count)) = self.grown else {
            return base;
        };
        let growth = self.limit / limit;
        let noise = (1.0 / count + 1.0 / seen.count).sqrt();
        // A smaller step drowns in noise.
        if growth.ln() < TELLING * noise {
            return base;
        }
        let paid = (seen.throughput / throughput - 1.0) / (growth - 1.0);
        // Where a slower server was believed in of late, it may be throughput taken from others.
        if paid > PAID && (self.fresh || self.raises.may(self.now, latency.value)) {
            self.probes.growth_paid();
            // The larger limit may have met the knee on the way, so this is less than a proof.
            let weight = if self.fresh { PROOF } else { LESS_THAN_PROOF };
            self.mean_base = self
                .mean_base
                .map(|base| base + (self.mean.value - base).max(0.0) * weight);
            return base + (latency.value - base).max(0.0) * weight;
        }
        if paid < UNPAID {
            self.probes.growth_failed();
            self.met_a_queue();
        }
        base
    }

    /// Learns from how throughput goes with the limit.
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
        let slope = self.slope.estimate();
        if slope.is_some_and(|slope| slope.value + SUGGESTED * slope.error < 0.0) {
            self.share = (self.share * TIGHTEN).max(TIGHTEST);
        } else {
            let relax = if queue <= 0.0 { RECOVER } else { RELAX };
            self.share = (self.share * relax).min(1.0);
        }
        let goes_with = slope.is_some_and(|slope| slope.value - CERTAIN * slope.error > GOES_WITH);
        if !goes_with || queue < ALLOWANCE * ENOUGH {
            return None;
        }
        if !self.raise(latency.value, self.limit, seen.throughput) {
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
