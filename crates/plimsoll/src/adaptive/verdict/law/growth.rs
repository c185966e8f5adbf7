//! When the limit grows, and when a larger limit would be worse.

use super::{Decision, ENOUGH, FASTEST, Law, Read, go};

/// A limit is in use if this share of it was; 1 / `USED` is the headroom of a quiet server.
const USED: f64 = 0.7;
/// The number of windows without a refusal after which the server is quiet.
const QUIET: u32 = 4;
/// Until the first queue the limit doubles with each window. It grows by less the more queues, but at least by this share.
const LEAST_FIRST: f64 = 0.25;
/// Later growth begins with the unused allowance, at most this share of the limit, and accelerates by this factor while nothing
/// queues.
const FIRST_STEP: f64 = 0.2;
const SPEED_UP: f64 = 2.0;
/// With a smaller allowance the limit grows more slowly, but at least at this share of the speed.
const LEAST_SPEED: f64 = 0.3;
/// Without more throughput the limit does not grow beyond this factor, regardless of the quartile,
const CLIMB: f64 = 1.6;
/// if the mean latency is larger by this factor. The excess is cut, by at most the next factor in a window. The last factor is how
/// much of it is forgotten with each window.
const SLOWER: f64 = 1.3;
const SURPLUS: f64 = 1.1;
const TAKEN: f64 = 0.7;
const REPENT: f64 = 1.002;

impl Law {
    pub(super) fn grow(&mut self, read: &Read) -> Decision {
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
        let slower = seen.mean > seen.throughput * self.climbed.latency * SLOWER;
        if slower && limit > self.climbed.limit * CLIMB {
            // Not for ever: the server may have changed.
            self.climbed.limit *= REPENT;
            let most = self.climbed.limit * CLIMB;
            if limit > most * SURPLUS && !self.fresh {
                return go(most.max(limit * TAKEN), "cut: more brought no more");
            }
            return self.keep("keep: more brought no more");
        }
        self.grown = Some((limit, seen.throughput, seen.count));
        if self.quiet >= QUIET || !seen.saturated && self.fresh {
            let limit = limit.max(seen.peak / USED);
            return go(limit, "grow: headroom");
        }
        if self.fresh {
            let room = (1.0 - read.queue / read.spare).clamp(LEAST_FIRST, 1.0);
            return go(limit * (1.0 + room), "grow: first");
        }
        // The unused allowance: as much as a cut would leave.
        let slowly = self.share * self.share;
        let largest = (limit * FIRST_STEP * slowly).max(1.0);
        let least = (read.spare - read.queue).clamp(1.0, largest);
        let most = (limit * FASTEST * slowly.max(LEAST_SPEED)).max(least);
        self.step = (self.step * SPEED_UP).clamp(least, most);
        go(limit + self.step, "grow")
    }
}
