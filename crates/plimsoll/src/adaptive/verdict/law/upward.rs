//! What is learnt from a larger limit, where a smaller one tells nothing.

use super::{ALLOWANCE, Decision, ENOUGH, FASTEST, LEAP, Law, Read, TELLING, go};

/// How many windows to wait before the first trial; one that brought nothing doubles it, up to the second.
const SOON: u32 = 2;
const RARELY: u32 = 64;
/// Where more than this share of the limit seems to queue, the baseline is doubtful.
const DOUBTFUL: f64 = 0.5;
/// By this factor more is tried, or by one that tells.
const LEAST: f64 = 1.5;
const MOST: f64 = 2.0;
/// A mean latency below this multiple of the quartile shows nothing of what is slower in proportion.
const SKEWED: f64 = 1.3;
/// At most this share of what seems to queue waits, where the work is slower.
const WAITS: f64 = 0.3;
/// A share of late work above which nothing is tried.
const LATE: f64 = 0.1;
/// More brought more if throughput grew by this share of it.
const PAID: f64 = 0.5;

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

    /// The first trial is not waited for.
    pub(super) const fn at_once() -> Self {
        Self { wait: 0, gap: SOON }
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
        Some(self.begin_more(read, "try more"))
    }

    /// Work that waits is late by the same, the quick and the slow. Work that takes longer is slower in proportion: the
    /// latencies are spread as much more as they are longer. Where after a leap most of what seems to queue is of that kind, more is
    /// tried before anything is cut, and throughput decides (`slow_dependency` of the simulator's example `law`, whose services
    /// are skewed: there the quartile rests at a limit of which a third seems to queue). What is late already wants less, not
    /// more.
    pub(super) fn try_stretched(&mut self, read: &Read) -> Option<Decision> {
        let (seen, latency) = (read.seen, read.latency.value);
        let leapt = latency > LEAP * self.base? && !self.leapt(&read.latency);
        if !seen.saturated || !leapt || self.shape < SKEWED || seen.overloads > LATE * seen.count {
            return None;
        }
        let own = (seen.time - latency) / (self.shape - 1.0);
        if seen.throughput * (latency - own) > WAITS * read.queue {
            return None;
        }
        if self.stretched.wait > 0 {
            self.stretched.wait -= 1;
            return None;
        }
        self.stretched.tried(false);
        self.met_a_queue();
        Some(self.begin_more(read, "try more: as if slower"))
    }

    fn begin_more(&mut self, read: &Read, reason: &'static str) -> Decision {
        let seen = read.seen;
        self.more = Some(self.trial(&seen, read.latency.value));
        let telling = (TELLING * (2.0 / seen.count).sqrt()).exp();
        let limit = self.limit * telling.clamp(LEAST, MOST);
        go(limit.max(self.limit + 1.0), reason)
    }

    /// What came of it: if as much more came through, and as fast, nothing had queued.
    pub(super) fn end_more(&mut self, read: &Read) -> Option<Decision> {
        let before = self.more.take()?;
        let seen = read.seen;
        let growth = self.limit / before.limit;
        let paid = (seen.throughput / before.throughput - 1.0) / (growth - 1.0);
        let as_fast =
            read.latency.value - read.latency.error < before.latency * f64::midpoint(1.0, growth);
        let news =
            paid > PAID && as_fast && self.raise(read.latency.value, self.limit, seen.throughput);
        self.upward.tried(news);
        if !news {
            return Some(go(before.limit, "tried: more brings no more"));
        }
        self.end_squeeze();
        self.probes.learnt();
        self.step = self.limit * FASTEST;
        // What was asked for needs as much more as it takes longer.
        let enough = (self.asked * seen.time + read.spare).min(self.ceiling);
        let limit = (self.limit + self.step).max(enough);
        Some(go(limit, "tried: more brings more"))
    }
}
