//! Whether the limit causes failures.

use super::window::Seen;

/// A share of failures that is ignored.
const IGNORED: f64 = 0.1;
/// A share is larger beyond this many standard errors.
const CERTAIN: f64 = 3.0;
/// The weight of a window in the usual share.
const FOLLOW: f64 = 0.1;
/// The maximum wait until a cut shows in the failures, in nanoseconds.
const PATIENCE: f64 = 10e9;
/// The largest and the smallest factor of a cut.
const CUT: f64 = 0.8;
const DEEPEST: f64 = 0.5;
/// A cut of this many standard errors of the throughput shows in it.
const TELLING: f64 = 1.5;

/// Above this share there is an outage: nothing succeeds, regardless of the limit,
const OUTAGE: f64 = 0.9;
/// and below this it is over:
const OVER: f64 = 0.5;
/// this share of the limit is back at once.
const AFTER_OUTAGE: f64 = 0.5;

/// Judges whether work failed because there was too much of it.
///
/// If the limit causes failures, a smaller limit reduces them, and the successes stay. If it reduces the successes in
/// proportion, the failures have another cause: their share is the usual one from then on, and the limit is restored. If hardly
/// anything succeeds, nothing can be lost and nothing can be told apart: the limit falls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    usual: f64,
    trial: Option<Before>,
    /// The limit at the start of an outage.
    outage: Option<f64>,
}

/// The measurement before a cut.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// The limit, and the used part of it.
    limit: f64,
    used: f64,
    share: f64,
    /// The successes per nanosecond, and in the window.
    throughput: f64,
    count: f64,
    /// The moment from which failures under the smaller limit show.
    shows_at: f64,
}

/// The limit that the failures of a window require.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Ask {
    Nothing,
    /// At most this.
    AtMost(f64),
    /// This one again: the failures had another cause.
    BackTo(f64),
}

impl Failures {
    pub(super) const fn new() -> Self {
        Self {
            usual: 0.0,
            trial: None,
            outage: None,
        }
    }

    /// `base` is the latency of a server without a queue, as far as known.
    pub(super) fn judge(&mut self, seen: &Seen, limit: f64, base: Option<f64>) -> Ask {
        let share = seen.overloads / seen.count;
        let now = Before {
            limit,
            used: limit.min(seen.peak.max(1.0)),
            share,
            throughput: seen.throughput * (1.0 - share),
            count: (seen.count * (1.0 - share)).max(0.1),
            shows_at: seen.closed + seen.overload_latency.min(PATIENCE),
        };
        // Further ahead than possible: the clock stepped back.
        let ahead = |before: Before| (1.0..=PATIENCE).contains(&(before.shows_at - seen.opened));
        if self.trial.is_some_and(ahead) {
            return Ask::AtMost(limit);
        }
        if let Some(before) = self.trial.take()
            && now.are_not_ours_since(&before)
        {
            self.usual = f64::midpoint(before.share, share);
            return Ask::BackTo(before.limit);
        }
        let usual = self.usual.max(IGNORED);
        if share <= usual + CERTAIN * (usual * (1.0 - usual) / seen.count).sqrt() {
            // A share that was never judged does not become usual by itself.
            if self.usual > IGNORED {
                self.usual += (share - self.usual) * FOLLOW;
            }
            if share > OVER {
                return Ask::Nothing;
            }
            // If the limit was the cause, the outage comes again, and half of the half is restored.
            let back = self
                .outage
                .take()
                .map_or(0.0, |before| before * AFTER_OUTAGE);
            return if back > limit {
                Ask::BackTo(back)
            } else {
                Ask::Nothing
            };
        }
        // Work that failed sooner than it could have been done did not wait.
        if share > OUTAGE && base.is_some_and(|base| seen.overload_latency < base) {
            self.outage.get_or_insert(limit);
        }
        self.trial = Some(now);
        Ask::AtMost(now.used * now.telling_cut())
    }
}

impl Before {
    /// Returns the smallest cut that shows in the successes of a window like this one.
    fn telling_cut(&self) -> f64 {
        CUT.min((-TELLING * (2.0 / self.count).sqrt()).exp())
            .max(DEEPEST)
    }

    /// Returns whether a smaller limit reduced the successes and left the share of failures.
    fn are_not_ours_since(&self, before: &Self) -> bool {
        let kept = self.used / before.used;
        let noise = (1.0 / before.count + 1.0 / self.count).sqrt();
        let if_ours = (1.0 - (1.0 - before.share) / kept).max(0.0);
        -kept.ln() > noise
            && self.throughput < before.throughput * f64::midpoint(1.0, kept)
            && self.share > f64::midpoint(before.share, if_ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second in which a limit of that was full, with so many successes and overloads.
    fn second(number: u32, limit: f64, good: f64, bad: f64) -> Seen {
        let opened = f64::from(number) * 1e9;
        Seen {
            opened,
            closed: opened + 1e9,
            count: good + bad,
            throughput: (good + bad) / 1e9,
            latency: None,
            peak: limit,
            mean: limit,
            held: limit,
            time: 1e6,
            time_error: 1e4,
            saturated: true,
            overloads: bad,
            overload_latency: 1e6,
            late: None,
        }
    }

    /// Seconds in which as much comes as `server` makes of the limit; the limit in the end, and whether it was ever restored.
    fn after(seconds: u32, server: impl Fn(f64) -> (f64, f64)) -> (f64, bool) {
        let (mut failures, mut limit, mut restored) = (Failures::new(), 100.0, false);
        for number in 0..seconds {
            let (good, bad) = server(limit);
            match failures.judge(&second(number, limit, good, bad), limit, Some(5e7)) {
                Ask::Nothing => {}
                Ask::AtMost(most) => limit = most.min(limit),
                Ask::BackTo(back) => (limit, restored) = (back, true),
            }
        }
        (limit, restored)
    }

    #[test]
    fn failures_that_a_smaller_limit_leaves_are_not_ours() {
        let (limit, restored) = after(20, |limit| (8.0 * limit, 2.0 * limit));
        assert!((limit - 100.0).abs() < 1e-9 && restored, "{limit}");
    }

    #[test]
    fn failures_that_a_smaller_limit_ends_are_ours() {
        let (limit, restored) = after(20, |limit| (400.0, (limit - 40.0).max(0.0) * 10.0));
        assert!((30.0..50.0).contains(&limit) && !restored, "{limit}");
    }

    #[test]
    fn where_nothing_succeeds_nothing_is_excused() {
        let (limit, restored) = after(20, |limit| (0.0, 10.0 * limit));
        assert!(limit < 1.0 && !restored, "{limit}");
    }

    #[test]
    fn when_an_outage_is_over_half_the_limit_is_back_at_once() {
        let (mut failures, mut limit) = (Failures::new(), 100.0);
        for number in 0..30 {
            if let Ask::AtMost(most) =
                failures.judge(&second(number, limit, 0.0, 100.0), limit, Some(5e7))
            {
                limit = most.max(1.0);
            }
        }
        assert!((limit - 1.0).abs() < 1e-9, "{limit}");
        let over = failures.judge(&second(40, limit, 100.0, 0.0), limit, Some(5e7));
        assert_eq!(over, Ask::BackTo(50.0));
        // What was as slow as the work may have waited, and is not excused.
        let mut failures = Failures::new();
        let _ = failures.judge(&second(0, 100.0, 0.0, 100.0), 100.0, Some(1e5));
        assert_eq!(
            failures.judge(&second(9, 50.0, 100.0, 0.0), 50.0, Some(1e5)),
            Ask::Nothing
        );
    }

    #[test]
    fn a_tenth_that_fails_is_nobodys_concern() {
        let (limit, _) = after(20, |limit| (9.0 * limit, limit));
        assert!((limit - 100.0).abs() < 1e-9, "{limit}");
    }
}
