//! The results of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::script::{Class, PATIENCE, Stage};

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Answered in time.
    Good,
    /// Not answered in time: the client timed out.
    GaveUp,
    /// Refused by a limit, for a reason.
    Refused { limit: String, reason: String },
    /// The upstream failed, or its queue was full.
    Failed,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) class: Class,
    /// The time at which it was sent, since the start of the run.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

/// One run: its requests and its duration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) samples: Vec<Sample>,
    /// The planned duration.
    pub(crate) whole: Duration,
    /// The actual duration, which is shorter if it was ended early.
    pub(crate) length: Duration,
}

/// The results of a set of requests.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Sums {
    /// The number of requests that were sent.
    pub sent: u64,
    /// The number of requests that were answered in time.
    pub good: u64,
    /// The number of requests whose clients timed out.
    pub gave_up: u64,
    /// The number of requests for which the upstream failed.
    pub failed: u64,
    /// The number of requests that a limit refused.
    pub refused: u64,
    /// The requests a second that were answered in time.
    pub goodput: f64,
    /// The 99th percentile of the latency of requests that were not refused. A time-out counts with the time-out of the client.
    pub p99: Option<Duration>,
    /// The number of refusals by limit and reason.
    pub reasons: BTreeMap<(String, String), u64>,
}

impl Run {
    /// The results of a class, in one stage or in all of them.
    pub(crate) fn sums(&self, class: Class, stage: Option<Stage>) -> Sums {
        let (from, to) = stage.map_or((0.0, 1.0), Stage::span);
        let (from, to) = (self.whole.mul_f64(from), self.whole.mul_f64(to));
        self.sums_between(class, from, to)
    }

    pub(crate) fn sums_between(&self, class: Class, from: Duration, to: Duration) -> Sums {
        let mut sums = Sums::default();
        let mut times = Vec::new();
        let within = |it: &&Sample| it.class == class && (from..to).contains(&it.at);
        for sample in self.samples.iter().filter(within) {
            sums.sent += 1;
            match &sample.outcome {
                Outcome::Good => sums.good += 1,
                Outcome::GaveUp => sums.gave_up += 1,
                Outcome::Failed => sums.failed += 1,
                Outcome::Refused { limit, reason } => {
                    sums.refused += 1;
                    let why = (limit.clone(), reason.clone());
                    *sums.reasons.entry(why).or_default() += 1;
                    continue;
                }
            }
            // A refusal is fast, but it does not count as a fast answer.
            times.push(match sample.outcome {
                Outcome::Good => sample.took,
                _ => PATIENCE,
            });
        }
        let seconds = to.min(self.length).saturating_sub(from).as_secs_f64();
        if seconds > 0.0 {
            #[expect(clippy::cast_precision_loss, reason = "to be shown")]
            let good = sums.good as f64;
            sums.goodput = good / seconds;
        }
        sums.p99 = p99(times);
        sums
    }
}

fn p99(mut times: Vec<Duration>) -> Option<Duration> {
    let last = times.len().checked_sub(1)?;
    let index = (last * 99).div_ceil(100);
    let (_, at, _) = times.select_nth_unstable(index);
    Some(*at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, took: u64, outcome: Outcome) -> Sample {
        Sample {
            class: Class::Browse,
            at: Duration::from_millis(at),
            took: Duration::from_millis(took),
            outcome,
        }
    }

    #[test]
    fn refusals_are_no_latency_and_failures_are_the_worst() {
        let refused = || Outcome::Refused {
            limit: "slots".to_owned(),
            reason: "full".to_owned(),
        };
        let mut run = Run {
            samples: (0..98).map(|it| sample(it, 10, Outcome::Good)).collect(),
            whole: Duration::from_secs(10),
            length: Duration::from_secs(2),
        };
        run.samples.push(sample(1, 0, refused()));
        run.samples.push(sample(1, 0, refused()));
        let sums = run.sums(Class::Browse, None);
        assert_eq!((sums.sent, sums.good, sums.refused), (100, 98, 2));
        assert_eq!(sums.p99, Some(Duration::from_millis(10)));
        // The run was ended after two seconds.
        assert_eq!(sums.goodput, 49.0);
        assert_eq!(sums.reasons[&("slots".to_owned(), "full".to_owned())], 2);
        run.samples.push(sample(1999, 1, Outcome::Failed));
        run.samples.push(sample(1999, 500, Outcome::GaveUp));
        assert_eq!(run.sums(Class::Browse, None).p99, Some(PATIENCE));
        assert_eq!(run.sums(Class::Checkout, None).p99, None);
        assert_eq!(run.sums(Class::Browse, Some(Stage::Quiet)).sent, 102);
        assert_eq!(run.sums(Class::Browse, Some(Stage::Drop)).sent, 0);
        assert_eq!(run.sums(Class::Browse, Some(Stage::Drop)).goodput, 0.0);
    }
}
