//! The results of a file, scenario by scenario, and their counts.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use plimsoll_spec::label;

/// The results of the scenarios of one file.
///
/// `Display` is the output of `plimsoll test`: one line per failed scenario, then the counts.
///
/// ```
/// let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 2, expect: granted }] }";
/// let report = plimsoll_scenario::run_str("limits.yaml", text)?;
/// let failure = report.failures().next().unwrap();
/// assert!(failure.starts_with("limits.yaml:1: n: step 1: expected granted"), "{failure}");
/// # Ok::<(), plimsoll_scenario::FileError>(())
/// ```
#[derive(Debug)]
pub struct Report {
    path: PathBuf,
    results: Vec<ScenarioResult>,
}

/// The result of one scenario: its name and its status.
#[derive(Debug)]
pub struct ScenarioResult {
    name: String,
    line: usize,
    status: ScenarioStatus,
}

/// The status of a scenario after its run.
///
/// A scenario is skipped, with the word that the counts name it by, if a part of it is not supported.
///
/// ```
/// use plimsoll_scenario::ScenarioStatus;
///
/// let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, expect: denied }] }";
/// let report = plimsoll_scenario::run_str("limits.yaml", text)?;
/// let ScenarioStatus::Failed(failure) = report.results()[0].status() else {
///     panic!("one permit is free");
/// };
/// assert_eq!((failure.step(), failure.line()), (1, 1));
/// # Ok::<(), plimsoll_scenario::FileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScenarioStatus {
    /// All expectations were met.
    Passed,
    /// A step did not meet its expectations.
    Failed(Failure),
    /// No limiter implements this part of the format yet: a kind, an algorithm or a verb.
    NotSupported(&'static str),
    /// The store cannot hold this part of the format: a kind, a verb or a field. Limiters in memory can.
    NotHeld(&'static str),
}

/// The step at which a scenario failed, and the differences. A scenario ends at its first failed step.
///
/// `Display` shows the step with the expected and the found values: `step 2: expected granted, got denied`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    step: usize,
    line: usize,
    mismatches: Vec<Mismatch>,
}

/// A difference between an expectation and the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    expected: String,
    got: String,
}

impl Mismatch {
    pub(crate) fn new(expected: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self {
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// Creates a difference in one field of an answer or of the limiter's state.
    pub(crate) fn of(what: &str, expected: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self::new(format_args!("{what} {expected}"), got)
    }

    /// Creates a difference in the result of the request with this name.
    pub(crate) fn named(name: &str, expected: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self::of(&format!("`{}`", label(name)), expected, got)
    }
}

impl Failure {
    pub(crate) fn new(step: usize, line: usize, mismatches: Vec<Mismatch>) -> Self {
        Self {
            step,
            line,
            mismatches,
        }
    }

    /// The number of the step, from 1.
    #[must_use]
    pub fn step(&self) -> usize {
        self.step
    }

    /// The line of the file in which the step begins.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: ", self.step)?;
        for (index, Mismatch { expected, got }) in self.mismatches.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}expected {expected}, got {got}")?;
        }
        Ok(())
    }
}

impl ScenarioResult {
    pub(crate) fn new(name: &str, line: usize, status: ScenarioStatus) -> Self {
        // A name is printed as part of one line.
        let name = name.replace(char::is_control, " ");
        Self { name, line, status }
    }

    /// The name of the scenario. Control characters are replaced by blanks.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The status of the scenario.
    #[must_use]
    pub fn status(&self) -> &ScenarioStatus {
        &self.status
    }

    /// The result as one line.
    fn show(&self, path: &Path) -> String {
        let path = path.display();
        let (name, line) = (&self.name, self.line);
        match &self.status {
            ScenarioStatus::Passed => format!("{path}:{line}: {name}: passed"),
            ScenarioStatus::Failed(failure) => {
                format!("{path}:{}: {name}: {failure}", failure.line)
            }
            ScenarioStatus::NotSupported(what) => {
                format!("{path}:{line}: {name}: not supported yet: {what}")
            }
            ScenarioStatus::NotHeld(what) => {
                format!("{path}:{line}: {name}: not held by Redis: {what}")
            }
        }
    }
}

impl Report {
    pub(crate) fn new(path: &Path, results: Vec<ScenarioResult>) -> Self {
        Self {
            path: path.to_owned(),
            results,
        }
    }

    /// The file, as it was named when it was run.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every scenario, in the order of the file.
    #[must_use]
    pub fn results(&self) -> &[ScenarioResult] {
        &self.results
    }

    /// The counts by status.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for result in &self.results {
            match &result.status {
                ScenarioStatus::Passed => tally.passed += 1,
                ScenarioStatus::Failed(_) => tally.failed += 1,
                ScenarioStatus::NotSupported(what) => {
                    *tally.not_supported.entry(what).or_default() += 1
                }
                ScenarioStatus::NotHeld(what) => *tally.not_held.entry(what).or_default() += 1,
            }
        }
        tally
    }

    /// One line per scenario, with the file, the line, the name and the status: `plimsoll test -v` prints these.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.results.iter().map(|result| result.show(&self.path))
    }

    /// One line per scenario that failed, with the file, the line of the step, the name and the differences.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        let failed = |result: &&ScenarioResult| matches!(result.status, ScenarioStatus::Failed(_));
        self.results
            .iter()
            .filter(failed)
            .map(|result| result.show(&self.path))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.failures() {
            writeln!(f, "{line}")?;
        }
        self.tally().fmt(f)
    }
}

/// Counts of scenarios by status. Tallies of several files can be added.
///
/// ```
/// let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ try: 1, expect: granted }] }";
/// let mut tally = plimsoll_scenario::run_str("limits.yaml", text)?.tally();
/// tally += tally.clone();
/// assert_eq!(tally.to_string(), "2 passed, 0 failed");
/// # Ok::<(), plimsoll_scenario::FileError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    passed: usize,
    failed: usize,
    not_supported: BTreeMap<&'static str, usize>,
    not_held: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// The number of scenarios that passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// The number of scenarios that failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// The number of scenarios that were skipped because no limiter implements a part of them.
    #[must_use]
    pub fn not_supported(&self) -> usize {
        self.not_supported.values().sum()
    }

    /// The number of scenarios that were skipped because the store cannot hold a part of them. 0 for limiters in memory.
    #[must_use]
    pub fn not_held(&self) -> usize {
        self.not_held.values().sum()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        for (what, count) in other.not_supported {
            *self.not_supported.entry(what).or_default() += count;
        }
        for (what, count) in other.not_held {
            *self.not_held.entry(what).or_default() += count;
        }
    }
}

/// `N passed, M failed`, after one line about unsupported parts and one about parts that the store cannot hold, if there are any.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apart = [
            ("not supported yet", &self.not_supported),
            ("not held by Redis", &self.not_held),
        ];
        for (why, words) in apart.iter().filter(|(_, words)| !words.is_empty()) {
            let mut words: Vec<_> = words.iter().collect();
            words.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let all: usize = words.iter().map(|(_, count)| **count).sum();
            let words: Vec<_> = words
                .iter()
                .map(|(what, count)| format!("{what} {count}"))
                .collect();
            writeln!(f, "{all} {why}: {}", words.join(", "))?;
        }
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}
