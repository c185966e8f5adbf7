//! The report as text.

use std::fmt;

use crate::samples::{Run, Sums};
use crate::script::{Class, PATIENCE, Stage};

/// One of the two runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// All limits are in shadow mode: nothing is refused.
    Without,
    /// The same limits are enforced.
    With,
}

impl Phase {
    /// The name of the run.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Without => "without limits",
            Self::With => "with Plimsoll",
        }
    }
}

/// The report of both runs, or of one if the demo was ended early. `Display` prints it for a terminal.
#[derive(Clone, Debug, Default)]
pub struct Report {
    runs: Vec<Run>,
}

impl Report {
    pub(crate) fn add(&mut self, run: Run) {
        self.runs.push(run);
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (Phase, &Run)> {
        [Phase::Without, Phase::With].into_iter().zip(&self.runs)
    }

    /// The results of a class in a run, in one stage or in all of them. Zero if the run did not take place.
    #[must_use]
    pub fn sums(&self, phase: Phase, class: Class, stage: Option<Stage>) -> Sums {
        let mut runs = self.runs();
        let run = runs.find(|(it, _)| *it == phase);
        run.map_or_else(Sums::default, |(_, run)| run.sums(class, stage))
    }

    /// The refusals by class, limit and reason, the most frequent first.
    pub(crate) fn refusals(&self) -> Vec<(Class, String, String, u64)> {
        let mut all = Vec::new();
        for class in Class::ALL {
            for ((limit, reason), count) in self.sums(Phase::With, class, None).reasons {
                all.push((class, limit, reason, count));
            }
        }
        all.sort_by_key(|it| u64::MAX - it.3);
        all
    }

    fn table(&self, stage: Option<Stage>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10}{:>10}", "", "asked")?;
        for (phase, _) in self.runs() {
            write!(f, "   │ {:<36}", phase.as_str())?;
        }
        write!(f, "\n{:<10}{:>10}", "", "a second")?;
        for _ in self.runs() {
            write!(
                f,
                "   │ {:>9}{:>6}{:>10}{:>11}",
                "in time", "", "p99", "refused"
            )?;
        }
        writeln!(f)?;
        for class in Class::ALL {
            write!(f, "{:<10}{:>10.0}", class.as_str(), class.rate())?;
            for (_, run) in self.runs() {
                let sums = run.sums(class, stage);
                let per_second = format!("{:.1}/s", sums.goodput);
                let refused = format!("{}%", percent(sums.refused, sums.sent));
                let good = format!("{}%", percent(sums.good, sums.sent));
                let p99 = sums.p99.map_or_else(|| "–".to_owned(), shown);
                write!(f, "   │ {per_second:>9}{good:>6}{p99:>10}{refused:>11}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A latency; marked if clients gave up.
pub(crate) fn shown(time: std::time::Duration) -> String {
    match time >= PATIENCE {
        true => "gave up".to_owned(),
        false => format!("{} ms", time.as_millis()),
    }
}

pub(crate) const fn percent(part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        whole => (part * 100 + whole / 2) / whole,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The whole run:\n")?;
        self.table(None, f)?;
        writeln!(f, "\nWhile {}:\n", Stage::Drop.phrase())?;
        self.table(Some(Stage::Drop), f)?;
        let refusals = self.refusals();
        if !refusals.is_empty() {
            writeln!(f, "\nWho was refused, by which limit, and why:\n")?;
        }
        for (class, limit, reason, count) in refusals {
            writeln!(f, "{:<10}{count:>10}   {limit}: {reason}", class.as_str())?;
        }
        if self.runs.iter().any(|run| run.length < run.whole) || self.runs.len() < 2 {
            writeln!(f, "\nIt was ended early: this is what there is until then.")?;
        }
        Ok(())
    }
}
