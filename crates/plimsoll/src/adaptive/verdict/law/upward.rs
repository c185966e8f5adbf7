//! Trials of a larger limit, for cases in which a smaller one shows nothing.

use super::{ALLOWANCE, Decision, ENOUGH, FASTEST, LEAP, Law, Read, TELLING, go};

/// The number of windows before the first trial. A trial without effect doubles it, up to the second number.
const SOON: u32 = 2;
const RARELY: u32 = 64;
/// If more than this share of the limit seems to queue, the baseline is doubtful.
const DOUBTFUL: f64 = 0.5;
/// The factor of a trial, unless a larger one is needed to decide.
const LEAST: f64 = 1.5;
const MOST: f64 = 2.0;
/// With a mean latency below this multiple of the quartile, slower work cannot be told from waiting by its shape.
const SKEWED: f64 = 1.3;
/// If the work is slower, at most this share of the apparent queue waits.
const WAITS: f64 = 0.3;
/// A share of late work above which there is no trial.
const LATE: f64 = 0.1;
/// A trial succeeded if the throughput grew by this share of it.
const PAID: f64 = 0.5;
/// Within this many standard errors of that the law looks again.
const UNSURE: f64 = 1.0;

/// The schedule of trials.
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

    /// Creates a schedule whose first trial is due at once, and the second soon.
    pub(super) const fn at_once() -> Self {
        Self { wait: 0, gap: 0 }
    }

    const fn tried(&mut self, news: bool) {
        self.gap = match self.gap.saturating_mul(2) {
            _ if news => SOON,
            0 => 1,
            gap if gap < RARELY => gap,
            _ => RARELY,
        };
        self.wait = self.gap;
    }
}

impl Law {
    /// Tries a larger limit if the allowance covers the whole limit: such a limit would stay where it is, however slow the server
    /// became, because the effect of a smaller one cannot be measured.
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

    /// Tries a larger limit if the work seems slower. Waiting adds the same time to all work; slower work multiplies all latencies, and
    /// so their spread. If after a leap most of the apparent queue is of the second kind, a larger limit is tried before a cut, and
    /// throughput decides (`slow_dependency` of the simulator's example `law`, whose services are skewed: there the quartile rests at
    /// a limit of which a third seems to queue). The shape of work that is not skewed tells nothing; there the past demand decides
    /// (`shed_dependency`). Work that is already late needs a smaller limit, not a larger one, and so does a pool that was full from
    /// the start (`slower_pool`).
    pub(super) fn try_stretched(&mut self, read: &Read) -> Option<Decision> {
        let (seen, latency) = (read.seen, read.latency.value);
        let leapt = latency > LEAP * self.base? && !self.leapt(&read.latency);
        if !seen.saturated || !leapt || !self.was_free || seen.overloads > LATE * seen.count {
            return None;
        }
        let seems_slower = match self.waiting(read) {
            Some(share) => share <= WAITS,
            None => self.demand_fits(read),
        };
        if !seems_slower {
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

    /// Returns the share of the apparent queue that waits, by the shape of the latencies: if the work is skewed and its shape known.
    fn waiting(&self, read: &Read) -> Option<f64> {
        if self.shape < SKEWED || read.queue <= 0.0 {
            return None;
        }
        let (seen, latency) = (read.seen, read.latency.value);
        let own = (seen.time - latency) / (self.shape - 1.0);
        Some(seen.throughput * (latency - own) / read.queue)
    }

    /// Returns whether the past demand, at the new latency, needs at most as much as the largest trial admits, for work that is not
    /// skewed. If the server is only slower, one trial ends the refusals, and a cut would double them.
    fn demand_fits(&self, read: &Read) -> bool {
        let known = self.asked > 0.0 && self.shape > 0.0 && self.shape < SKEWED;
        let needed = self.asked * read.seen.time + read.spare;
        known && read.queue > read.allowance && needed < MOST * self.limit
    }

    /// Returns whether the latencies have the shape of work most of which waits.
    pub(super) fn waits(&self, read: &Read) -> bool {
        self.waiting(read).is_some_and(|share| share > 1.0 - WAITS)
    }

    fn begin_more(&mut self, read: &Read, reason: &'static str) -> Decision {
        let seen = read.seen;
        self.more = Some(self.trial(&seen, read.latency));
        let telling = (TELLING * (2.0 / seen.count).sqrt()).exp();
        let limit = self.limit * telling.clamp(LEAST, MOST);
        go(limit.max(self.limit + 1.0), reason)
    }

    /// Ends a trial: if the throughput grew as much, nothing had queued.
    pub(super) fn end_more(&mut self, read: &Read) -> Option<Decision> {
        let before = self.more.take()?;
        let seen = read.seen;
        let growth = self.limit / before.limit;
        let gain = seen.throughput / before.throughput;
        let paid = (gain - 1.0) / (growth - 1.0);
        let noise = gain * (1.0 / before.count + 1.0 / seen.count).sqrt() / (growth - 1.0);
        if !self.looked && (paid - PAID).abs() < UNSURE * noise {
            self.more = Some(before);
            self.again = true;
            return Some(self.keep("keep: look again"));
        }
        let news = paid > PAID && self.raise(read.latency, self.limit, seen.throughput);
        self.upward.tried(news);
        if !news {
            return Some(go(before.limit, "tried: more brings no more"));
        }
        self.end_squeeze();
        self.probes.learnt();
        self.climbed = self.trial(&seen, self.mean);
        self.step = self.limit * FASTEST;
        // The past demand needs a limit larger by the factor of the latency.
        let enough = self.asked * seen.time + read.spare;
        let limit = (self.limit + self.step).max(enough);
        Some(go(limit, "tried: more brings more"))
    }
}
