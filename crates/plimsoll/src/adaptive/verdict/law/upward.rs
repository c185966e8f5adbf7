//! What is learnt from a larger limit, where a smaller one tells nothing.

use super::{ALLOWANCE, Decision, ENOUGH, FASTEST, Law, Read, TELLING, go};

/// How many windows to wait before the first trial; one that brought nothing doubles it, up to the second.
const SOON: u32 = 2;
const RARELY: u32 = 64;
/// Where more than this share of the limit seems to queue, the baseline is doubtful.
const DOUBTFUL: f64 = 0.5;
/// By this factor more is tried, or by one that tells.
const LEAST: f64 = 1.5;
const MOST: f64 = 2.0;
/// More brought more if throughput grew by this share of it.
const PAID: f64 = 0.6;

/// When to try more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upward {
    wait: u32,
    gap: u32,
}

impl Upward {
    pub(super) const fn new() -> Self {
        Self {
            wait: SOON,
            gap: SOON,
        }
    }

    const fn tried(&mut self, news: bool) {
        self.gap = match self.gap.saturating_mul(2) {
            _ if news => SOON,
            gap if gap < RARELY => gap,
            _ => RARELY,
        };
        self.wait = self.gap;
    }
}

impl Law {
    /// A limit so small that what may queue is all of it stays there, however slow the server became: what it does with
    /// less cannot be seen, so more is tried.
    pub(super) fn try_more(&mut self, read: &Read) -> Option<Decision> {
        let seen = read.seen;
        let rests = self.limit <= self.min.max(ALLOWANCE) && seen.saturated && !self.fresh;
        if !rests || read.queue <= (DOUBTFUL * self.limit).max(read.allowance * ENOUGH) {
            return None;
        }
        self.upward.wait = self.upward.wait.saturating_sub(1);
        if self.upward.wait > 0 {
            return None;
        }
        self.more = Some(self.trial(&seen, read.latency.value));
        let telling = (TELLING * (2.0 / seen.count).sqrt()).exp();
        let limit = self.limit * telling.clamp(LEAST, MOST);
        Some(go(limit.max(self.limit + 1.0), "try more"))
    }

    /// What came of it: if as much more came through, and as fast, nothing had queued.
    pub(super) fn end_more(&mut self, read: &Read) -> Option<Decision> {
        let before = self.more.take()?;
        let seen = read.seen;
        let growth = self.limit / before.limit;
        let paid = (seen.throughput / before.throughput - 1.0) / (growth - 1.0);
        let as_fast = read.latency.value < before.latency * f64::midpoint(1.0, growth);
        let news =
            paid > PAID && as_fast && self.raise(read.latency.value, self.limit, seen.throughput);
        self.upward.tried(news);
        if !news {
            return Some(go(before.limit, "tried: more brings no more"));
        }
        self.end_squeeze();
        self.probes.learnt();
        self.step = self.limit * FASTEST;
        Some(go(self.limit + self.step, "tried: more brings more"))
    }
}
