//! One decision for each window.

use super::probes::Probes;
use super::slope::Slope;
use super::window::{Latency, Seen};

/// How much work may queue: enough that a server of few workers finds the next piece when it is done with one.
const ALLOWANCE: f64 = 5.0;
/// The baseline is known to about a tenth, and so is the queue of a large limit.
const DOUBT: f64 = 0.1;
/// Above this share of the allowance the limit stays where it is.
const ENOUGH: f64 = 0.5;
/// A limit is in use if so much of it was; 1 / `USED` is the headroom of a quiet server.
const USED: f64 = 0.7;
/// A limit was not in the way if nobody was refused and less than this share of it was in use.
const FREE: f64 = 0.5;
/// So many windows without a refusal are quiet.
const QUIET: u32 = 4;
/// Growth for each window until the first queue is met.
const FIRST_GROWTH: f64 = 1.5;
/// Later growth begins with √limit / 6 and gains speed by this factor while nothing queues,
const SPEED_UP: f64 = 1.5;
/// to at most this share of the limit in a window.
const FASTEST: f64 = 0.5;
/// The largest cut, and the cut after explicit overload.
const DEEPEST: f64 = 0.5;
const OVERLOAD: f64 = 0.8;
/// A probe goes to this share of the limit at which nothing would queue.
const PROBE: f64 = 0.8;
/// What a window that only suggests a baseline weighs, and what one that proves it.
const HINT: f64 = 0.1;
const PROOF: f64 = 0.5;
const LESS_THAN_PROOF: f64 = 0.3;
/// Growth paid if throughput grew by this share of it.
const PAID: f64 = 0.7;
/// A slope above this is throughput that goes with the limit,
const GOES_WITH: f64 = 0.4;
/// if it is by so many standard errors.
const CERTAIN: f64 = 1.5;
/// The allowance shrinks and recovers by these factors, and to this share.
const TIGHTEN: f64 = 0.9;
const RELAX: f64 = 1.02;
const TIGHTEST: f64 = 0.3;

/// What was decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) limit: f64,
    pub(super) reason: &'static str,
}

const fn go(limit: f64, reason: &'static str) -> Decision {
    Decision { limit, reason }
}

/// What a latency below the baseline weighs. A queue makes work slower, never faster, so a latency far below is
/// nearer to the truth, and half the baseline is the truth.
fn weight(base: f64, latency: Latency) -> f64 {
    if latency.value < base / 2.0 {
        1.0
    } else if base - latency.value > 2.0 * latency.error {
        PROOF
    } else {
        HINT
    }
}

/// Something that was tried, to be compared with what comes of it.
#[derive(Clone, Copy, Debug)]
struct Trial {
    limit: f64,
    throughput: f64,
    latency: f64,
    count: f64,
}

/// What the law knows.
#[derive(Clone, Debug)]
pub(super) struct Law {
    limit: f64,
    min: f64,
    /// The latency of a server without a queue, in nanoseconds.
    base: Option<f64>,
    probes: Probes,
    slope: Slope,
    /// What is left of the allowance where more work makes the server slower.
    share: f64,
    /// Whether no queue was met yet.
    fresh: bool,
    /// How fast the limit grows, 0 after it met a queue.
    step: f64,
    /// Windows without a refusal.
    quiet: u32,
    /// The limit and throughput before it grew.
    grown: Option<(f64, f64)>,
    /// What was seen before a probe.
    probe: Option<Trial>,
    /// What was seen in the second window of a squeeze, and the limit before the first.
    squeeze: Option<Trial>,
    top: Option<f64>,
}

/// A window in the light of what is known.
#[derive(Clone, Copy)]
struct Read {
    seen: Seen,
    latency: Latency,
    /// How much of what is in flight queues.
    queue: f64,
    allowance: f64,
}

impl Law {
    pub(super) const fn new(limit: f64, min: f64) -> Self {
        Self {
            limit,
            min,
            base: None,
            probes: Probes::new(),
            slope: Slope::new(),
            share: 1.0,
            fresh: true,
            step: 0.0,
            quiet: 0,
            grown: None,
            probe: None,
            squeeze: None,
            top: None,
        }
    }

    pub(super) const fn limit(&self) -> f64 {
        self.limit
    }

    pub(super) const fn base(&self) -> Option<f64> {
        self.base
    }

    /// Takes note of the limit that came of a decision.
    pub(super) const fn set(&mut self, limit: f64) {
        self.limit = limit;
    }

    pub(super) fn decide(&mut self, seen: &Seen) -> Decision {
        self.quiet = if seen.saturated {
            0
        } else {
            self.quiet.saturating_add(1)
        };
        let Some(latency) = seen.latency else {
            return self.without_latency(seen);
        };
        let base = self.learn(seen, latency);
        let queue = seen.throughput * (latency.value - base);
        if let Some(decision) = self.watch_slope(seen, latency, queue) {
            return decision;
        }
        let allowed = ALLOWANCE.max(DOUBT * seen.throughput * base);
        let read = Read {
            seen: *seen,
            latency,
            queue,
            allowance: allowed * self.share + seen.throughput * latency.error,
        };
        if let Some(before) = self.probe.take() {
            return self.end_probe(&before, &read);
        }
        if let Some(decision) = self.judge(&read) {
            return decision;
        }
        if seen.saturated && queue > read.allowance {
            return self.cut(&read);
        }
        if seen.overloaded {
            return self.back_off();
        }
        self.leave_squeeze(&read);
        if seen.saturated && self.probes.is_due() && self.limit > self.min {
            return self.begin_probe(&read);
        }
        self.grow(&read)
    }

    const fn keep(&self, reason: &'static str) -> Decision {
        go(self.limit, reason)
    }

    /// Nothing but failures: how long they took says nothing.
    fn without_latency(&mut self, seen: &Seen) -> Decision {
        self.probe = None;
        if seen.overloaded {
            return self.back_off();
        }
        self.keep("keep: no latency")
    }

    fn back_off(&mut self) -> Decision {
        self.met_a_queue();
        go(self.limit * OVERLOAD, "cut: overload")
    }

    const fn met_a_queue(&mut self) {
        self.fresh = false;
        self.step = 0.0;
    }

    /// Learns the baseline from a window that shows it in passing.
    fn learn(&mut self, seen: &Seen, latency: Latency) -> f64 {
        let free = !seen.saturated && seen.peak < FREE * self.limit;
        let mut base = self.base.unwrap_or(latency.value);
        let above = latency.value - base;
        if above < 0.0 && self.probe.is_none() {
            base += above * weight(base, latency);
        } else if free {
            base += above * HINT;
        }
        if free {
            self.probes.nothing_queued();
            self.share = 1.0;
        } else if seen.saturated {
            self.probes.count();
            base = self.check_growth(seen, latency, base);
        }
        self.grown = None;
        self.base = Some(base);
        base
    }

    /// Whether the last growth brought throughput. If it did, nothing queued.
    fn check_growth(&mut self, seen: &Seen, latency: Latency, base: f64) -> f64 {
        let Some((limit, throughput)) = self.grown else {
            return base;
        };
        let growth = self.limit / limit;
        // A step of a few percent drowns in noise.
        if growth > 1.15 && seen.throughput > throughput * (1.0 + (growth - 1.0) * PAID) {
            self.probes.growth_paid();
            // The larger limit may have met the knee on the way, so this is less than a proof.
            return base + (latency.value - base).max(0.0) * LESS_THAN_PROOF;
        }
        if growth > 1.3 {
            self.probes.growth_failed();
        }
        base
    }
}

impl Law {
    /// Learns from how throughput goes with the limit.
    fn watch_slope(&mut self, seen: &Seen, latency: Latency, queue: f64) -> Option<Decision> {
        if !seen.saturated || self.probe.is_some() {
            return None;
        }
        self.slope.add(self.limit, seen.throughput, seen.count);
        let slope = self.slope.estimate();
        if slope.is_some_and(|slope| slope.value + CERTAIN * slope.error < 0.0) {
            self.share = (self.share * TIGHTEN).max(TIGHTEST);
        } else {
            self.share = (self.share * RELAX).min(1.0);
        }
        let goes_with = slope.is_some_and(|slope| slope.value - CERTAIN * slope.error > GOES_WITH);
        if !goes_with || queue < ALLOWANCE * ENOUGH {
            return None;
        }
        self.base = Some(latency.value);
        self.slope = Slope::new();
        self.probes.learnt();
        self.end_squeeze();
        self.step = self.limit * FASTEST * 0.5;
        Some(go(
            self.limit + self.step,
            "grow: throughput goes with the limit",
        ))
    }

    /// The verdict on a squeeze: if the smaller limit took throughput and left the latency, there was no queue.
    ///
    /// The first window of a squeeze may lie across the change that began it, so the second is the one to compare
    /// with; and the limit must have moved by more than the throughput is uncertain.
    fn judge(&mut self, read: &Read) -> Option<Decision> {
        let before = self.squeeze?;
        let share = self.limit / before.limit;
        let noise = (1.0 / before.count + 1.0 / read.seen.count).sqrt();
        if share > 0.9 || -share.ln() < noise {
            return None;
        }
        let half = f64::midpoint(1.0, share);
        let throughput = read.seen.throughput / before.throughput;
        // Lost more than the limit can account for: the server changed meanwhile, and `before` tells nothing.
        if throughput.ln() < 1.25 * share.ln() - noise {
            self.squeeze = Some(self.trial(read));
            return None;
        }
        self.squeeze = None;
        let as_slow = read.latency.value > before.latency * half;
        if !read.seen.saturated || read.seen.overloaded || throughput >= half || !as_slow {
            // The cut was right so far, and there is nothing above to go back to.
            self.top = Some(self.limit);
            return None;
        }
        self.base = Some(read.latency.value);
        self.probes.learnt();
        let top = self.top.unwrap_or(before.limit);
        self.end_squeeze();
        self.step = top * FASTEST;
        Some(go(top, "restore: not our queue"))
    }

    fn cut(&mut self, read: &Read) -> Decision {
        self.met_a_queue();
        if self.top.is_none() {
            self.top = Some(self.limit);
        } else if self.squeeze.is_none() {
            self.squeeze = Some(self.trial(read));
        }
        let knee = self.limit - read.queue;
        let mut limit = (knee + read.allowance).max(self.limit * DEEPEST);
        if read.seen.overloaded {
            limit = limit.min(self.limit * OVERLOAD);
        }
        go(limit, "cut: queue")
    }

    fn trial(&self, read: &Read) -> Trial {
        Trial {
            limit: self.limit,
            throughput: read.seen.throughput,
            latency: read.latency.value,
            count: read.seen.count,
        }
    }

    const fn end_squeeze(&mut self) {
        self.squeeze = None;
        self.top = None;
    }

    /// A squeeze ends when the limit may grow again.
    fn leave_squeeze(&mut self, read: &Read) {
        if !read.seen.saturated || read.queue <= read.allowance * ENOUGH {
            self.end_squeeze();
        }
    }

    fn begin_probe(&mut self, read: &Read) -> Decision {
        self.probe = Some(self.trial(read));
        self.end_squeeze();
        let knee = self.limit - read.queue.max(0.0);
        go(knee * PROBE, "probe")
    }

    fn end_probe(&mut self, before: &Trial, read: &Read) -> Decision {
        let latency = read.latency;
        let base = self.base.unwrap_or(latency.value);
        let half = f64::midpoint(1.0, self.limit / before.limit);
        let less_came_through = read.seen.throughput < before.throughput * half;
        let off = latency.value - base;
        let news = off.abs() > (3.0 * latency.error).max(0.1 * base);
        let base = if off > 0.0 && !less_came_through {
            base
        } else {
            base + off * if news { 1.0 } else { PROOF }
        };
        self.base = Some(base);
        self.probes.probed(news);
        let knee = before.limit - before.throughput * (before.latency - base);
        let limit = (knee + read.allowance).min(before.limit).max(self.limit);
        go(limit, if news { "probed: news" } else { "probed" })
    }

    fn grow(&mut self, read: &Read) -> Decision {
        let limit = self.limit;
        let seen = read.seen;
        if !seen.saturated && seen.peak < USED * limit {
            return self.keep("keep: not in use");
        }
        if read.queue > read.allowance {
            return self.keep("keep: queue without refusals");
        }
        if read.queue > read.allowance * ENOUGH {
            self.step = 0.0;
            return self.keep("keep: enough");
        }
        self.grown = Some((limit, seen.throughput));
        if self.quiet >= QUIET {
            return go(limit.max(seen.peak / USED), "grow: headroom");
        }
        if self.fresh {
            return go(limit * FIRST_GROWTH, "grow: first");
        }
        let least = (limit.sqrt() / 6.0).max(1.0);
        let most = (limit * FASTEST).max(least);
        self.step = (self.step * SPEED_UP).clamp(least, most);
        go(limit + self.step, "grow")
    }
}
