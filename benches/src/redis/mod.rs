//! Limits in Redis, on one real server, beside what the server and its client can do at all.

mod contenders;
pub(crate) mod fairness;
mod load;
mod peers;
mod server;
mod targets;

use std::rc::Rc;
use std::time::Duration;

use self::fairness::Fairness;
use self::load::{Bench, Sample, Trial};
use crate::contender::{Contender, Rounds};
use crate::report::{Series, Table, marked, quantile};

/// What all names of cases here begin with.
pub(crate) const REDIS: &str = "redis";

/// How many ask at once, and the case.
const CALLERS: [(usize, &str); 4] = [
    (1, "redis-1"),
    (16, "redis-16"),
    (64, "redis-64"),
    (256, "redis-256"),
];

/// How often, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: Rounds,
    pub(crate) span: Duration,
}

/// What came of the cases that ran.
#[derive(Default)]
pub(crate) struct Results {
    cases: Vec<Case>,
    fairness: Option<Fairness>,
}

struct Case {
    callers: usize,
    series: Vec<Series<Sample>>,
}

/// Runs the cases whose name `wanted` accepts.
pub(crate) fn run(plan: &Plan, wanted: impl Fn(&str) -> bool) -> Results {
    let mut results = Results::default();
    let cases = CALLERS.into_iter().filter(|(_, name)| wanted(name));
    let callers: Vec<usize> = cases.map(|(callers, _)| callers).collect();
    let fairness = wanted("redis-fairness");
    if callers.is_empty() && !fairness {
        return results;
    }
    let bench = match Bench::start() {
        Ok(bench) => Rc::new(bench),
        Err(error) => {
            eprintln!("nothing is measured in Redis: {error}");
            return results;
        }
    };
    for callers in callers {
        let trial = Trial {
            callers,
            span: plan.span,
        };
        let series = Contender::in_turns(contenders::all(&bench), &plan.rounds, trial);
        results.cases.push(Case { callers, series });
    }
    // Long enough that the burst at the beginning matters little.
    results.fairness = fairness.then(|| fairness::run(&bench, &plan.rounds, plan.span * 5));
    results
}

impl Results {
    pub(crate) fn markdown(&self) -> Vec<String> {
        let fairness = self.fairness.iter().map(Fairness::markdown);
        self.cases
            .iter()
            .map(Case::markdown)
            .chain(fairness)
            .collect()
    }
}

impl Case {
    fn find(&self, name: &str) -> Option<&Series<Sample>> {
        self.series.iter().find(|series| series.name == name)
    }

    /// How many times the throughput of `other` this has, in the same round.
    fn ratio(&self, this: &str, other: &str) -> Option<f64> {
        let rate = |name| Some(self.find(name)?.each(|sample| sample.per_second));
        Some(rate(this)?.over(&rate(other)?))
    }

    fn markdown(&self) -> String {
        let mut rows: Vec<_> = self.series.iter().collect();
        rows.sort_by_key(|series| series.role);
        let mut table = Table::new(&[
            "",
            "a second",
            "p10 – p90",
            "p50, µs",
            "p99, µs",
            "round trips",
            "server, µs",
            "client, µs",
            "÷ INCR",
            "÷ redis-benchmark",
        ]);
        for series in rows {
            let rate = series.each(|sample| sample.per_second);
            let median = |figure: fn(&Sample) -> f64| series.each(figure).median();
            let ratio = |floor: &str| match self.ratio(series.name, floor) {
                Some(ratio) => format!("{ratio:.2}"),
                None => String::new(),
            };
            table.rows.push(vec![
                marked(series),
                format!("{:.0}", rate.median()),
                format!(
                    "{:.0} – {:.0}",
                    quantile(&rate.samples, 0.1),
                    quantile(&rate.samples, 0.9)
                ),
                format!("{:.0}", median(|sample| sample.p50)),
                format!("{:.0}", median(|sample| sample.p99)),
                format!("{:.2}", median(|sample| sample.trips)),
                format!("{:.1}", median(|sample| sample.server)),
                format!("{:.1}", median(|sample| sample.client)),
                ratio(contenders::INCR),
                ratio(contenders::PIPELINED),
            ]);
        }
        format!(
            "### In Redis, {} at once\n\n{}",
            self.callers,
            table.markdown()
        )
    }
}
