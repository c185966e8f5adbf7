//! Samples, what they come to, and how they are written down.

use std::cmp::Ordering;
use std::fmt::Write;

use crate::contender::Role;

/// The samples of one contender, one for each round.
pub(crate) struct Series<S = f64> {
    pub(crate) role: Role,
    pub(crate) name: &'static str,
    pub(crate) samples: Vec<S>,
}

impl<S> Series<S> {
    pub(crate) fn new(role: Role, name: &'static str) -> Self {
        Self {
            role,
            name,
            samples: Vec::new(),
        }
    }

    /// One of the figures of each sample.
    pub(crate) fn each(&self, figure: impl Fn(&S) -> f64) -> Series {
        Series {
            role: self.role,
            name: self.name,
            samples: self.samples.iter().map(figure).collect(),
        }
    }
}

impl Series {
    pub(crate) fn median(&self) -> f64 {
        quantile(&self.samples, 0.5)
    }

    /// The median over rounds of this over `other`, each pair from the same round.
    pub(crate) fn over(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self.pairs(other).map(|(a, b)| a / b).collect();
        quantile(&ratios, 0.5)
    }

    /// The median over rounds of this minus `other`.
    pub(crate) fn minus(&self, other: &Self) -> f64 {
        let differences: Vec<f64> = self.pairs(other).map(|(a, b)| a - b).collect();
        quantile(&differences, 0.5)
    }

    fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (f64, f64)> {
        let others = other.samples.iter().copied();
        self.samples.iter().copied().zip(others)
    }
}

/// The value below which a share of the samples lies; those that are none do not count.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.retain(|sample| !sample.is_nan());
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len().saturating_sub(1)) as f64;
    let (low, part) = (place.floor(), place.fract());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of samples"
    )]
    let low = low as usize;
    match (sorted.get(low), sorted.get(low + 1)) {
        (Some(a), Some(b)) => a + (b - a) * part,
        (Some(a), None) => *a,
        _ => f64::NAN,
    }
}

/// One case: all who ran side by side in it.
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What a sample is measured in.
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<Series>,
    /// Those whose ratio to everybody else is shown.
    pub(crate) compared: &'static [&'static str],
}

impl Case {
    pub(crate) fn find(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Ours first, then the peers from fast to slow, then the floors.
    pub(crate) fn markdown(&self) -> String {
        let mut rows: Vec<&Series> = self.series.iter().collect();
        rows.sort_by(|a, b| {
            let fast_first = a.median().total_cmp(&b.median());
            let as_listed = a.role == Role::Ours;
            let within = if as_listed {
                Ordering::Equal
            } else {
                fast_first
            };
            a.role.cmp(&b.role).then(within)
        });
        let compared: Vec<&Series> = self
            .compared
            .iter()
            .filter_map(|name| self.find(name))
            .collect();

        let mut table = Table::new(&["", self.unit, "p10 – p90"]);
        for series in &compared {
            table.head.push(format!("{} ÷ this", short(series.name)));
        }
        for series in rows {
            let mut row = vec![
                marked(series),
                format!("{:.1}", series.median()),
                format!(
                    "{:.1} – {:.1}",
                    quantile(&series.samples, 0.1),
                    quantile(&series.samples, 0.9)
                ),
            ];
            for ours in &compared {
                row.push(if ours.name == series.name {
                    "1".to_owned()
                } else {
                    format!("{:.2}", ours.over(series))
                });
            }
            table.rows.push(row);
        }
        format!("### {}\n\n{}", self.title, table.markdown())
    }
}

/// Without our own name in front.
fn short(name: &str) -> &str {
    name.strip_prefix("plimsoll ").unwrap_or(name)
}

pub(crate) fn marked<S>(series: &Series<S>) -> String {
    match series.role {
        Role::Ours => format!("**{}**", series.name),
        Role::Peer => series.name.to_owned(),
        Role::Floor => format!("*floor* {}", series.name),
    }
}

/// A Markdown table whose first column is text and whose others are numbers.
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&title| title.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: &[String]| {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        };
        line(&self.head);
        let mut rule = vec!["---".to_owned()];
        rule.resize(self.head.len(), "--:".to_owned());
        line(&rule);
        for row in &self.rows {
            line(row);
        }
        text
    }
}
