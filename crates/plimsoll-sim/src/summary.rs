use std::ops::Add;
use std::ops::Range;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::class::CLASSES;
use crate::num::millis;
use crate::phase::Phase;
use crate::second::{RequestCounts, Second};

/// Results of a phase, of one run or as the mean of several.
///
/// Goodput is a fraction of the ideal goodput; the other fractions are of the offered requests.
///
/// ```
/// use plimsoll_sim::{Contender, Simulation, run};
///
/// let simulation = Simulation::from_text("overload.yaml", "
///     name: overload
///     duration: 20s
///     rate: 400
///     workers: 10
///     service: 50ms
/// ")?;
/// // Ten workers can answer 200 of 400 requests per second.
/// let summary = &run(&simulation, &Contender::fixed(12), 1).phases[0];
/// assert!(summary.goodput > Some(0.95) && summary.rejected > 0.45);
/// assert_eq!(summary.limit, Some(12.0));
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The name of the phase.
    pub phase: String,
    /// The requests answered before the deadline, as a fraction of those that a perfect limiter would have answered. `None` if a
    /// perfect limiter would have answered none.
    pub goodput: Option<f64>,
    /// The lowest goodput of any run. For a single run, its goodput.
    pub worst_goodput: Option<f64>,
    /// The mean latency, from arrival to answer, in milliseconds. `None` if no request was answered.
    pub mean_ms: Option<f64>,
    /// The median latency, from arrival to answer, in milliseconds. `None` if no request was answered.
    pub p50_ms: Option<f64>,
    /// The 90th percentile of the latency, in milliseconds.
    pub p90_ms: Option<f64>,
    /// The 99th percentile of the latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The fraction of requests that were refused, after all retries.
    pub rejected: f64,
    /// The fraction of requests that were answered after the deadline.
    pub late: f64,
    /// The fraction of requests that were answered with an error.
    pub failed: f64,
    /// The time to settle, in seconds: until 5 spans of 3 seconds in a row have at least 90 % of the ideal goodput. `None` if
    /// they never do.
    pub settle_s: Option<f64>,
    /// The time to recover, in seconds: until 5 spans in a row also have a median latency of at most 1.25 times that of the last
    /// third of the phase. `None` if there are none.
    pub recovery_s: Option<f64>,
    /// The mean limit, over the seconds of the phase. `None` without a limit.
    pub limit: Option<f64>,
    /// The standard deviation of the limit.
    pub limit_sd: Option<f64>,
    /// The fraction of each class that was refused: critical, normal, non-critical. `None` for a class without traffic.
    pub rejected_by_class: [Option<f64>; CLASSES.len()],
    /// The fraction of each class that was answered before the deadline. `None` for a class without traffic.
    pub good_by_class: [Option<f64>; CLASSES.len()],
    /// Jain's fairness index of the goodput of several processes, relative to their share of the traffic: 1 if all have the same,
    /// 1/n if one of n has all. `None` for one process.
    pub fairness: Option<f64>,
}

/// The seconds over which goodput is averaged.
const SMOOTH: usize = 3;
/// The number of good spans in a row.
const IN_A_ROW: usize = 5;

pub(crate) fn sum_up(phase: &Phase, seconds: &[Second], latencies: &Histogram<u64>) -> Summary {
    let range = phase.range();
    let part = seconds.get(range.clone()).unwrap_or_default();
    let counts = part
        .iter()
        .map(Second::counts)
        .fold(RequestCounts::default(), RequestCounts::add);
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let by_class = |what: fn(&RequestCounts) -> u64| {
        let mut shares = [None; CLASSES.len()];
        for (class, slot) in shares.iter_mut().enumerate() {
            let counts = part.iter().map(|second| second.classes[class]);
            let counts = counts.fold(RequestCounts::default(), RequestCounts::add);
            *slot = (counts.offered > 0).then(|| share(what(&counts), counts.offered));
        }
        shares
    };
    let answered = !latencies.is_empty();
    let percentile = |p| answered.then(|| millis(latencies.value_at_quantile(p) as f64));
    let ideal: f64 = part.iter().map(|second| second.ideal).sum();
    let limits: Vec<f64> = part
        .iter()
        .filter_map(|second| second.limit)
        .map(|limit| limit as f64)
        .collect();
    let settled = |at| (at..at + IN_A_ROW).all(|at| is_good(seconds, at, range.end));
    let calm = calm_latency(part);
    let recovered = |at| settled(at) && (at..at + IN_A_ROW).all(|at| is_calm(seconds, at, calm));
    let goodput = (ideal >= 1.0).then(|| counts.good as f64 / ideal);
    Summary {
        phase: phase.name().to_owned(),
        goodput,
        worst_goodput: goodput,
        mean_ms: answered.then(|| millis(latencies.mean())),
        p50_ms: percentile(0.5),
        p90_ms: percentile(0.9),
        p99_ms: percentile(0.99),
        rejected: share(counts.rejected, counts.offered),
        late: share(counts.late, counts.offered),
        failed: share(counts.failed, counts.offered),
        settle_s: first(&range, settled),
        recovery_s: first(&range, recovered),
        limit: mean(&limits),
        limit_sd: spread(&limits),
        rejected_by_class: by_class(|counts| counts.rejected),
        good_by_class: by_class(|counts| counts.good),
        fairness: None,
    }
}

/// Jain's fairness index of `had`, relative to `shares`.
pub(crate) fn fairness(had: &[u64], shares: &[f64]) -> Option<f64> {
    let parts = had.iter().zip(shares).filter(|(_, share)| **share > 0.0);
    let parts: Vec<f64> = parts.map(|(had, share)| *had as f64 / share).collect();
    let sum: f64 = parts.iter().sum();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    (parts.len() > 1 && squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
}

/// Seconds from the beginning of the phase to the first that is `good`.
fn first(range: &Range<usize>, good: impl Fn(usize) -> bool) -> Option<f64> {
    let last = range.end.saturating_sub(IN_A_ROW);
    let found = (range.start..last).find(|at| good(*at));
    found.map(|at| (at - range.start) as f64)
}

/// Whether the three seconds from `at` on have nine tenths of the ideal goodput. True at the end of the phase.
fn is_good(seconds: &[Second], at: usize, end: usize) -> bool {
    if at + SMOOTH >= end {
        return true;
    }
    let part = &seconds[at..at + SMOOTH];
    let good: u64 = part.iter().map(|second| second.counts().good).sum();
    good as f64 >= 0.9 * part.iter().map(|second| second.ideal).sum::<f64>()
}

/// The median latency of the last third, by the second.
fn calm_latency(part: &[Second]) -> f64 {
    let last = &part[part.len() - part.len().div_ceil(3)..];
    let mut medians: Vec<f64> = last.iter().filter_map(|second| second.p50_ms).collect();
    medians.sort_by(f64::total_cmp);
    medians
        .get(medians.len() / 2)
        .copied()
        .unwrap_or(f64::INFINITY)
}

fn is_calm(seconds: &[Second], at: usize, calm: f64) -> bool {
    let latency = seconds.get(at).and_then(|second| second.p50_ms);
    latency.is_none_or(|latency| latency <= 1.25 * calm)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn spread(values: &[f64]) -> Option<f64> {
    let middle = mean(values)?;
    let squares: Vec<f64> = values
        .iter()
        .map(|value| (value - middle).powi(2))
        .collect();
    mean(&squares).map(f64::sqrt)
}

/// The mean of the same phase in several runs. A value that one run lacks, such as a time to settle, is `None`.
pub(crate) fn average(runs: &[&Summary]) -> Option<Summary> {
    let first = runs.first()?;
    let number = |what: fn(&Summary) -> f64| {
        runs.iter().map(|run| what(run)).sum::<f64>() / runs.len() as f64
    };
    let option = |what: &dyn Fn(&Summary) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| what(run)).collect();
        values.and_then(|values| mean(&values))
    };
    Some(Summary {
        phase: first.phase.clone(),
        goodput: option(&|run| run.goodput),
        worst_goodput: runs
            .iter()
            .filter_map(|run| run.worst_goodput)
            .min_by(f64::total_cmp),
        mean_ms: option(&|run| run.mean_ms),
        p50_ms: option(&|run| run.p50_ms),
        p90_ms: option(&|run| run.p90_ms),
        p99_ms: option(&|run| run.p99_ms),
        rejected: number(|run| run.rejected),
        late: number(|run| run.late),
        failed: number(|run| run.failed),
        settle_s: option(&|run| run.settle_s),
        recovery_s: option(&|run| run.recovery_s),
        limit: option(&|run| run.limit),
        limit_sd: option(&|run| run.limit_sd),
        rejected_by_class: std::array::from_fn(|i| option(&|run| run.rejected_by_class[i])),
        good_by_class: std::array::from_fn(|i| option(&|run| run.good_by_class[i])),
        fairness: option(&|run| run.fairness),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of 100 requests that a perfect limiter would all answer, with the good ones and their milliseconds.
    fn seconds(each: impl IntoIterator<Item = (u64, f64)>) -> Vec<Second> {
        let second = |(good, p50)| {
            let mut second = Second {
                p50_ms: Some(p50),
                ideal: 100.0,
                ..Second::default()
            };
            second.classes[1] = RequestCounts {
                offered: 100,
                good,
                rejected: 100 - good,
                ..RequestCounts::default()
            };
            second
        };
        each.into_iter().map(second).collect()
    }

    fn summary(seconds: &[Second]) -> Summary {
        let phase = Phase {
            name: "all".to_owned(),
            from: 0,
            to: seconds.len() as u64,
        };
        sum_up(&phase, seconds, &Histogram::new(3).unwrap())
    }

    #[test]
    fn settled_is_when_goodput_is_there_and_stays() {
        let settle = |good: &[u64]| {
            let steady = std::iter::repeat_n(95, 20);
            summary(&seconds(
                good.iter().copied().chain(steady).map(|good| (good, 50.0)),
            ))
            .settle_s
        };
        assert_eq!(settle(&[]), Some(0.0));
        assert_eq!(settle(&[0, 0, 0]), Some(3.0));
        // Goodput is averaged over three seconds: 80, 95 and 95 are 90 %.
        assert_eq!(settle(&[0, 80]), Some(1.0));
        // Good for a while is not settled.
        assert_eq!(settle(&[0, 95, 95, 95, 95, 0]), Some(6.0));
        assert_eq!(summary(&seconds([(50, 50.0); 30])).settle_s, None);
        assert_eq!(
            summary(&seconds([(100, 50.0); 4])).settle_s,
            None,
            "too short to tell"
        );
    }

    #[test]
    fn recovered_is_when_latency_is_down_as_well() {
        let falling = [900.0, 400.0, 63.0, 62.0].into_iter();
        let all = falling.chain(std::iter::repeat_n(50.0, 20));
        let calm = summary(&seconds(all.map(|p50| (100, p50))));
        assert_eq!((calm.settle_s, calm.recovery_s), (Some(0.0), Some(3.0)));
        let growing = (0..30).map(|second| (0, f64::from(second) * 1000.0));
        assert_eq!(summary(&seconds(growing)).recovery_s, None);
    }

    #[test]
    fn means_have_what_all_of_them_have() {
        let settled = summary(&seconds([(100, 50.0); 20]));
        let lost = summary(&seconds([(50, 50.0); 20]));
        let both = average(&[&settled, &lost]).unwrap();
        assert_eq!((both.goodput, both.rejected), (Some(0.75), 0.25));
        assert_eq!(both.worst_goodput, Some(0.5));
        assert_eq!(both.settle_s, None);
        assert_eq!(both.rejected_by_class, [None, Some(0.25), None]);
        assert_eq!(average(&[&settled, &settled]).as_ref(), Some(&settled));
        assert!(average(&[]).is_none());
    }
}
