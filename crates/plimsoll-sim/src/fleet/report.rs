//! The report of a fleet, as data and as text.

use serde::Serialize;

use super::model::{Fleet, FleetExpectation, FleetMetric, METRICS, Sharing};
use super::outcome::FleetOutcome;
use crate::Checked;
use crate::expect::Unit;
use crate::report::table;

/// The outcomes of a [`Fleet`] with several seeds, and its checked expectations.
///
/// [`Fleet::report`] makes it. It serializes as JSON; [`fleet_text`] makes a table of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct FleetReport {
    /// The name of the fleet.
    pub name: String,
    /// The description of the fleet. Empty if it has none.
    pub about: String,
    /// `borrowed` or `assigned`.
    pub sharing: &'static str,
    /// The outcomes, by number of processes and then by seed.
    pub outcomes: Vec<FleetOutcome>,
    /// Every expectation of the file, checked for each number of processes. Metrics with a bound are checked with their worst
    /// seed, `used` and `used_parted` with the mean.
    pub checks: Vec<Checked>,
}

const HEAD: [&str; 12] = [
    "processes",
    "sharing",
    "used",
    "in partitions",
    "above the rate",
    "bound",
    "fairness",
    "least",
    "most",
    "unlimited",
    "stale",
    "messages",
];

impl FleetReport {
    pub(super) fn new(fleet: &Fleet, outcomes: Vec<FleetOutcome>) -> Self {
        let sharing = match fleet.sharing {
            Sharing::Borrowed { .. } => "borrowed",
            Sharing::Assigned { .. } => "assigned",
        };
        let mut report = Self {
            name: fleet.name().to_owned(),
            about: fleet.about().to_owned(),
            sharing,
            outcomes,
            checks: Vec::new(),
        };
        let numbers = fleet.processes.iter();
        report.checks = numbers
            .flat_map(|processes| {
                let wanted = fleet.expectations.iter();
                wanted.map(|wanted| report.check(*processes, wanted))
            })
            .collect();
        report
    }

    /// The outcomes with this number of processes.
    fn of(&self, processes: u32) -> impl Iterator<Item = &FleetOutcome> {
        let same = move |it: &&FleetOutcome| it.processes == processes;
        self.outcomes.iter().filter(same)
    }

    /// The value of a metric over the seeds: the worst seed if the metric has a bound, else the mean.
    fn value(&self, processes: u32, metric: FleetMetric) -> Option<f64> {
        let values: Option<Vec<f64>> = self.of(processes).map(|it| it.metric(metric)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        let each = values.iter().copied();
        Some(match metric {
            FleetMetric::Above | FleetMetric::Most => each.fold(0.0, f64::max),
            FleetMetric::Fairness | FleetMetric::Least => each.fold(f64::INFINITY, f64::min),
            FleetMetric::Used | FleetMetric::UsedParted => each.sum::<f64>() / values.len() as f64,
        })
    }

    fn check(&self, processes: u32, wanted: &FleetExpectation) -> Checked {
        let found = self.value(processes, wanted.metric);
        let unit = match wanted.metric {
            FleetMetric::Above | FleetMetric::Used | FleetMetric::UsedParted => Unit::Share,
            _ => Unit::Number,
        };
        let row = METRICS.iter().find(|(_, metric)| *metric == wanted.metric);
        let word = row.map_or("", |(word, _)| word);
        let relation = wanted.relation;
        Checked {
            limit: self.sharing.to_owned(),
            phase: format!("{processes} processes"),
            expected: format!("{word} {} {}", relation.word(), unit.show(wanted.value)),
            found: found.map_or_else(
                || "nothing".to_owned(),
                |found| unit.show_beside(found, wanted.value),
            ),
            met: found.is_some_and(|found| relation.holds(found, wanted.value)),
        }
    }

    fn row(&self, processes: u32) -> Vec<String> {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let value = |metric| self.value(processes, metric);
        let most = |what: fn(&FleetOutcome) -> f64| {
            let values = self.of(processes).map(what);
            format!("{:.0}", values.fold(0.0, f64::max))
        };
        vec![
            processes.to_string(),
            self.sharing.to_owned(),
            or_dash(value(FleetMetric::Used).map(percent)),
            or_dash(value(FleetMetric::UsedParted).map(percent)),
            most(|it| it.above),
            most(|it| it.bound),
            or_dash(value(FleetMetric::Fairness).map(|it| format!("{it:.3}"))),
            or_dash(value(FleetMetric::Least).map(|it| format!("{it:.2}"))),
            or_dash(value(FleetMetric::Most).map(|it| format!("{it:.2}"))),
            most(|it| it.unlimited as f64),
            most(|it| it.stale as f64),
            most(|it| it.messages as f64),
        ]
    }
}

/// Formats a report as a table with a row for each number of processes, followed by the expectations that are not met.
#[must_use]
pub fn fleet_text(report: &FleetReport) -> String {
    let mut numbers: Vec<u32> = report.outcomes.iter().map(|it| it.processes).collect();
    numbers.dedup();
    let head = HEAD.map(str::to_owned).to_vec();
    let rows = numbers.iter().map(|processes| report.row(*processes));
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let seeds = report.of(numbers.first().copied().unwrap_or(0)).count();
    let plural = if seeds == 1 { "" } else { "s" };
    let about = match report.about.as_str() {
        "" => String::new(),
        about => format!(": {about}"),
    };
    let mut out = format!("{}{about} ({seeds} seed{plural})\n", report.name);
    table(&mut out, &rows);
    for check in report.checks.iter().filter(|check| !check.met) {
        out.push_str(&format!("  {check}\n"));
    }
    out
}
