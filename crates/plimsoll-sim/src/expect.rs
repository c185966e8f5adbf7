use std::fmt;

use serde::Serialize;

use crate::Summary;
use crate::class::{CLASSES, Class};

/// An expectation of a phase.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Expectation {
    /// The index of the phase.
    pub(crate) phase: usize,
    pub(crate) metric: Metric,
    pub(crate) relation: Relation,
    /// The expected value, in the unit of the metric: a fraction, milliseconds, seconds, or a number.
    pub(crate) value: f64,
}

/// A metric of an expectation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Metric {
    Plain(Plain),
    RejectedOf(Class),
    GoodOf(Class),
    /// A number, as a multiple of that of the oracle.
    VsOracle(Plain),
    /// The mean limit as a multiple of that of the first phase.
    LimitVsFirst,
}

/// The numbers of a [`Summary`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plain {
    Goodput,
    WorstGoodput,
    Rejected,
    Late,
    Failed,
    P50,
    P90,
    P99,
    Settle,
    Recovery,
    Limit,
    LimitSd,
    Fairness,
}

/// The unit of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Share,
    Millis,
    Seconds,
    Number,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
}

/// All metrics by name, except those by class, which are written as a map of classes.
pub(crate) const METRICS: [(&str, Metric); 17] = [
    ("goodput", Metric::Plain(Plain::Goodput)),
    ("worst_goodput", Metric::Plain(Plain::WorstGoodput)),
    ("rejected", Metric::Plain(Plain::Rejected)),
    ("late", Metric::Plain(Plain::Late)),
    ("failed", Metric::Plain(Plain::Failed)),
    ("p50", Metric::Plain(Plain::P50)),
    ("p90", Metric::Plain(Plain::P90)),
    ("p99", Metric::Plain(Plain::P99)),
    ("settle", Metric::Plain(Plain::Settle)),
    ("recovery", Metric::Plain(Plain::Recovery)),
    ("limit", Metric::Plain(Plain::Limit)),
    ("limit_sd", Metric::Plain(Plain::LimitSd)),
    ("goodput_vs_oracle", Metric::VsOracle(Plain::Goodput)),
    ("p50_vs_oracle", Metric::VsOracle(Plain::P50)),
    ("p99_vs_oracle", Metric::VsOracle(Plain::P99)),
    ("limit_vs_first", Metric::LimitVsFirst),
    ("fairness", Metric::Plain(Plain::Fairness)),
];

pub(crate) const RELATIONS: [(&str, Relation); 5] = [
    // Longer ones first, because `<` is a prefix of `<=`.
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::Above),
    ("<", Relation::Below),
    ("=", Relation::Equal),
];

impl Metric {
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Plain(plain) => plain.unit(),
            Self::RejectedOf(_) | Self::GoodOf(_) => Unit::Share,
            Self::VsOracle(_) | Self::LimitVsFirst => Unit::Number,
        }
    }

    pub(crate) fn needs_oracle(self) -> bool {
        matches!(self, Self::VsOracle(_))
    }

    fn word(self) -> String {
        let class = |class: Class| CLASSES[class].0;
        match self {
            Self::RejectedOf(of) => format!("rejected of {}", class(of)),
            Self::GoodOf(of) => format!("good of {}", class(of)),
            metric => {
                let row = METRICS.iter().find(|(_, known)| *known == metric);
                row.map_or_else(String::new, |(word, _)| (*word).to_owned())
            }
        }
    }
}

impl Plain {
    fn unit(self) -> Unit {
        match self {
            Self::Goodput | Self::WorstGoodput | Self::Rejected | Self::Late | Self::Failed => {
                Unit::Share
            }
            Self::P50 | Self::P90 | Self::P99 => Unit::Millis,
            Self::Settle | Self::Recovery => Unit::Seconds,
            Self::Limit | Self::LimitSd | Self::Fairness => Unit::Number,
        }
    }

    fn of(self, summary: &Summary) -> Option<f64> {
        match self {
            Self::Goodput => summary.goodput,
            Self::WorstGoodput => summary.worst_goodput,
            Self::Rejected => Some(summary.rejected),
            Self::Late => Some(summary.late),
            Self::Failed => Some(summary.failed),
            Self::P50 => summary.p50_ms,
            Self::P90 => summary.p90_ms,
            Self::P99 => summary.p99_ms,
            Self::Settle => summary.settle_s,
            Self::Recovery => summary.recovery_s,
            Self::Limit => summary.limit,
            Self::LimitSd => summary.limit_sd,
            Self::Fairness => summary.fairness,
        }
    }
}

impl Relation {
    pub(crate) fn holds(self, found: f64, wanted: f64) -> bool {
        match self {
            Self::AtLeast => found >= wanted,
            Self::AtMost => found <= wanted,
            Self::Above => found > wanted,
            Self::Below => found < wanted,
            Self::Equal => (found - wanted).abs() <= f64::EPSILON,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        let row = RELATIONS.iter().find(|(_, known)| *known == self);
        row.map_or("", |(word, _)| word)
    }
}

/// A checked expectation: the expected and the found value, and whether the expectation is met.
///
/// `Display` shows it in one line, such as `FAILED: verdict, all: expected goodput >= 97%, found 93.1%`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// The name of the tested limit. For a fleet, its way of sharing.
    pub limit: String,
    /// The name of the phase. For a fleet, its number of processes.
    pub phase: String,
    /// The expectation, such as `goodput >= 97%`.
    pub expected: String,
    /// The value that was found, such as `93.1%`; `never` if the moment did not occur, `nothing` for any other missing value.
    pub found: String,
    /// Whether the expectation is met. A missing value meets no expectation.
    pub met: bool,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            phase,
            expected,
            found,
            met,
        } = self;
        let word = if *met { "met" } else { "FAILED" };
        write!(
            f,
            "{word}: {limit}, {phase}: expected {expected}, found {found}"
        )
    }
}

impl Expectation {
    /// Checks the phases of a limit. `oracle` has the phases of the oracle, for metrics that compare with it.
    pub(crate) fn check(
        &self,
        limit: &str,
        phases: &[Summary],
        oracle: Option<&[Summary]>,
    ) -> Option<Checked> {
        let summary = phases.get(self.phase)?;
        let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
        let found = match self.metric {
            Metric::Plain(plain) => plain.of(summary),
            Metric::RejectedOf(class) => summary.rejected_by_class[class],
            Metric::GoodOf(class) => summary.good_by_class[class],
            Metric::VsOracle(plain) => {
                let oracle = oracle.and_then(|phases| phases.get(self.phase));
                ratio(plain.of(summary), oracle.and_then(|phase| plain.of(phase)))
            }
            Metric::LimitVsFirst => {
                ratio(summary.limit, phases.first().and_then(|first| first.limit))
            }
        };
        let unit = self.metric.unit();
        let (word, relation) = (self.metric.word(), self.relation.word());
        Some(Checked {
            limit: limit.to_owned(),
            phase: summary.phase.clone(),
            expected: format!("{word} {relation} {}", unit.show(self.value)),
            found: match (found, unit) {
                (Some(found), _) => unit.show_beside(found, self.value),
                (None, Unit::Seconds) => "never".to_owned(),
                (None, _) => "nothing".to_owned(),
            },
            met: found.is_some_and(|found| self.relation.holds(found, self.value)),
        })
    }
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        self.show_to(value, 2)
    }

    /// Formats a value with as many digits as tell it from `other`.
    pub(crate) fn show_beside(self, value: f64, other: f64) -> String {
        let differs = |digits: &usize| self.show_to(value, *digits) != self.show_to(other, *digits);
        let digits = (2..=9).find(differs).unwrap_or(2);
        self.show_to(value, digits)
    }

    /// Formats a value with at most so many digits after the point.
    fn show_to(self, value: f64, digits: usize) -> String {
        let rounded = |value: f64| {
            let text = format!("{value:.digits$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match self {
            Self::Share => format!("{}%", rounded(100.0 * value)),
            Self::Millis if value < 0.1 => format!("{}us", rounded(1000.0 * value)),
            Self::Millis => format!("{}ms", rounded(value)),
            Self::Seconds => format!("{}s", rounded(value)),
            Self::Number => rounded(value),
        }
    }
}
