//! Cuts and probes: evidence from a smaller limit.

use super::{
    CERTAIN, Decision, ENOUGH, FASTEST, LEAP, Law, PROOF, Read, TELLING, Trial, UNHEARD, go,
};
use crate::adaptive::verdict::window::{Latency, Seen};

/// The largest cut.
const DEEPEST: f64 = 0.5;
/// The smallest cut that tells a queue from a slower server.
const SHALLOWEST: f64 = 0.8;
/// A latency that grew by this factor between two windows grew within one of them, which then shows neither the state before nor
/// after.
const LEAPT: f64 = 1.5;
/// A smaller limit does not make work slower by this factor.
const SLOWER: f64 = 1.25;
/// A throughput within this many standard errors of the middle decides nothing.
const UNSURE: f64 = 0.5;
/// A probe goes to this share of the limit at which nothing would queue.
const PROBE: f64 = 0.8;

impl Law {
    /// Returns the verdict on a squeeze: if the smaller limit cut the throughput and left the latency, there was no queue.
    ///
    /// The change of the limit must exceed the error of the throughput.
    pub(super) fn judge(&mut self, read: &Read) -> Option<Decision> {
        let before = self.squeeze?;
        let share = self.limit / before.limit;
        let noise = (1.0 / before.count + 1.0 / read.seen.count).sqrt();
        if share > 0.9 || -share.ln() < noise {
            return None;
        }
        let half = f64::midpoint(1.0, share);
        let throughput = read.seen.flow() / before.throughput;
        // The loss is more than the limit accounts for: the server changed meanwhile, and `before` is no evidence. The same holds
        // if the latency rose, or was still rising in `before`.
        let slower = read.latency.value - 2.0 * read.latency.error > SLOWER * before.latency;
        if throughput.ln() < 1.25 * share.ln() - noise || slower {
            self.squeeze = Some(self.full_trial(&read.seen, read.latency));
            return None;
        }
        // Within the error it may be either (`one_worker`): the law looks once more. With few samples the throughput falls by chance, and
        // latencies that are all longer by the same time are a queue (the classes `few_workers` and `low_rate`).
        let loss = (half / throughput).ln() / noise;
        let waits = (0.0..CERTAIN).contains(&loss) && self.waits(read);
        if !self.looked && (loss.abs() < UNSURE || waits) {
            self.again = true;
            return Some(self.keep("keep: look again"));
        }
        self.squeeze = None;
        let base = self.base.unwrap_or(read.latency.value);
        let at_most = read.latency.value + read.latency.error;
        let as_slow = at_most > before.latency * half || at_most > LEAP * base;
        if !read.seen.saturated || loss <= 0.0 || waits || !as_slow {
            // The cut was right so far, and there is no larger limit to return to.
            self.top = Some(self.limit);
            self.asked = 0.0;
            return None;
        }
        // The throughput fell, so nothing queues now, and the latency fell by the former queue.
        let top = self.top.unwrap_or(before.limit);
        let time = read.seen.time;
        if !self.raise(read.latency, top, before.throughput) {
            self.top = Some(self.limit);
            return None;
        }
        self.probes.learnt();
        self.end_squeeze();
        // The past demand needs a limit larger by the factor of the latency.
        let enough = self.asked * time + read.spare;
        self.step = top * FASTEST;
        Some(go(top.max(enough), "restore: not our queue"))
    }

    pub(super) fn cut(&mut self, read: &Read) -> Decision {
        self.met_a_queue();
        // Work that is late or ends unheard cannot wait longer.
        let can_wait = read.seen.overloads < 0.5 * read.seen.count && read.seen.unheard() < UNHEARD;
        // Only once: a latency that leaps again is a queue that fills.
        if self.leapt(&read.latency) && can_wait && !self.looked {
            self.end_squeeze();
            self.again = true;
            return self.keep("keep: look again");
        }
        self.top.get_or_insert(self.limit);
        if self.squeeze.is_none() {
            self.squeeze = Some(self.full_trial(&read.seen, read.latency));
        }
        let knee = self.limit - read.queue;
        let mut limit = knee + read.allowance;
        // After a leap it is a slower server or a queue (`shed_pool`, `one_worker`), and the cut must tell which.
        if self.looked
            && self
                .base
                .is_some_and(|base| read.latency.value > LEAP * base)
        {
            let telling = (-TELLING * (2.0 / read.seen.count).sqrt()).exp();
            limit = limit.min(self.limit * telling.min(SHALLOWEST));
        }
        go(limit.max(self.limit * DEEPEST), "cut: queue")
    }

    /// Records the measurement under a full limit.
    fn full_trial(&self, seen: &Seen, latency: Latency) -> Trial {
        Trial {
            // While the latency still rises, the work in flight is too high an estimate.
            throughput: seen.flow().min(seen.throughput),
            ..self.trial(seen, latency)
        }
    }

    /// Returns whether the latency changed within this window for another reason than growth of the limit: otherwise a queue grows by
    /// as much, and may have been half full in the window before.
    pub(super) fn leapt(&self, latency: &Latency) -> bool {
        let grew = (self.limit / self.last_limit).max(1.0);
        latency.value - latency.error > LEAPT * grew * grew * self.last
    }

    pub(super) const fn end_squeeze(&mut self) {
        self.squeeze = None;
        self.top = None;
    }

    /// Ends a squeeze once the limit may grow again.
    pub(super) fn leave_squeeze(&mut self, read: &Read) {
        if !read.seen.saturated || read.queue <= read.allowance * ENOUGH {
            self.end_squeeze();
        }
    }

    pub(super) fn begin_probe(&mut self, read: &Read) -> Decision {
        self.probe = Some(self.full_trial(&read.seen, read.latency));
        self.end_squeeze();
        let knee = self.limit - read.queue.max(0.0);
        go(knee * PROBE, "probe")
    }

    pub(super) fn end_probe(&mut self, before: &Trial, read: &Read) -> Decision {
        let latency = read.latency;
        let base = self.base.unwrap_or(latency.value);
        let half = f64::midpoint(1.0, self.limit / before.limit);
        let less_came_through = read.seen.flow() < before.throughput * half;
        let off = latency.value - base;
        let news = off.abs() > (3.0 * latency.error).max(0.1 * base);
        let found = base + off * if news { 1.0 } else { PROOF };
        let error = if news {
            latency.error
        } else {
            PROOF * latency.error.hypot(self.base_error)
        };
        let mut believed = true;
        if off <= 0.0 {
            self.base = Some(found);
            self.base_error = error;
        } else if less_came_through {
            let found = Latency {
                value: found,
                error,
            };
            believed = self.raise(found, before.limit, before.throughput);
        }
        // A result that is not believed will not be believed the next time either (the class `drift`).
        let news = news && believed;
        let base = self.base.unwrap_or(latency.value);
        if news && off < 0.0 && !less_came_through && self.limit > self.min {
            // Everything that the probe removed had queued; there may be more.
            self.probe = Some(*before);
            return go(self.limit * PROBE, "probe: further");
        }
        self.probes.probed(news);
        let noise = (1.0 / before.count + 1.0 / read.seen.count).sqrt();
        if !less_came_through && (before.limit / self.limit).ln() > TELLING * noise {
            let limit = (self.limit + read.spare).min(before.limit);
            return go(limit, "probed: as much came through");
        }
        let knee = before.limit - before.throughput * (before.latency - base);
        let limit = (knee + read.allowance).min(before.limit).max(self.limit);
        go(limit, if news { "probed: news" } else { "probed" })
    }
}
