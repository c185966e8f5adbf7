//! Why a file could not be read: which file, where in it, which field, what was found and what was expected.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::tree::Place;

/// What reading a part of a file gives.
pub type Read<T> = Result<T, Problem>;

/// Something wrong in a file's text.
///
/// The path of the field is put together from the inside out, while the error travels up through the readers of the
/// maps and lists around it: reading a correct file costs nothing for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    place: Place,
    field: String,
    scenario: Option<String>,
    message: String,
}

impl Problem {
    /// A problem at `place`.
    #[must_use]
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            field: String::new(),
            scenario: None,
            message: message.into(),
        }
    }

    /// The same problem, with a hint at what to write instead.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.message = format!("{}, {hint}", self.message);
        self
    }

    /// The same problem, seen from the map that holds it in the field `key`.
    #[must_use]
    pub fn under_key(mut self, key: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') {
            ""
        } else {
            "."
        };
        self.field = format!("{key}{dot}{}", self.field);
        self
    }

    /// The same problem, seen from the list that holds it as item `index`.
    #[must_use]
    pub fn under_index(self, index: usize) -> Self {
        self.under_key(&format!("[{index}]"))
    }

    /// The same problem, seen from the file: one that is a list is the list of its `scenarios`.
    pub(crate) fn at_top(self) -> Self {
        if self.field.starts_with('[') {
            self.under_key("scenarios")
        } else {
            self
        }
    }

    pub(crate) fn in_scenario(mut self, name: Option<String>) -> Self {
        self.scenario = name;
        self
    }
}

/// A field's name as part of a path. An unknown one can be of any length and hold anything; a message is one
/// readable line.
#[must_use]
pub fn label(key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-".contains(c);
    if !key.is_empty() && key.chars().count() <= 40 && key.chars().all(plain) {
        return key.to_owned();
    }
    quote(key)
}

/// Text from a file, on one line and not longer than is useful.
#[must_use]
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A file that could not be read, or that says something that has no meaning.
///
/// Its message is one line: `limits.yaml:7:34: scenarios[0].steps[2].expect.retry_after: expected …, found …`. Where a
/// reader looks for all mistakes, each has such a line: see [`lines`](Self::lines).
/// Indices count from 0, lines and columns from 1.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Io(io::Error),
    /// At least one, in the order of the file.
    Problems(Vec<Problem>),
}

impl FileError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            cause: Cause::Io(error),
        }
    }

    /// A file in which something is wrong.
    #[must_use]
    pub fn problem(path: &Path, problem: Problem) -> Self {
        Self {
            path: path.to_owned(),
            cause: Cause::Problems(vec![problem]),
        }
    }

    /// A file in which several things are wrong, in the order of the file. `None` if there are none.
    #[must_use]
    pub fn problems(path: &Path, mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort_by_key(|problem| (problem.place.line, problem.place.column));
        problems.dedup();
        let path = path.to_owned();
        let cause = Cause::Problems(problems);
        let some = matches!(&cause, Cause::Problems(problems) if !problems.is_empty());
        some.then_some(Self { path, cause })
    }

    /// Everything that is wrong, one line each: `limits.yaml:7:34: limiters.api.every: expected …, found …`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let path = self.path.display();
        let (io, problems) = match &self.cause {
            Cause::Io(error) => (Some(error), &[][..]),
            Cause::Problems(problems) => (None, problems.as_slice()),
        };
        let io = io.map(|error| format!("{path}: cannot be read: {error}"));
        let problems = problems
            .iter()
            .map(|problem| format!("{}:{problem}", self.path.display()));
        io.into_iter().chain(problems)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line, from 1; `None` if the file could not even be opened.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.as_problem().map(|problem| problem.place.line)
    }

    /// The column, from 1, counted in characters.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.as_problem().map(|problem| problem.place.column)
    }

    /// The path of the field, such as `scenarios[3].steps[2].at`; `None` if no field is to blame.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.as_problem()
            .map(|problem| problem.field.as_str())
            .filter(|field| !field.is_empty())
    }

    /// The first.
    fn as_problem(&self) -> Option<&Problem> {
        match &self.cause {
            Cause::Io(_) => None,
            Cause::Problems(problems) => problems.first(),
        }
    }
}

/// Place, field and message, without the file.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            field,
            scenario,
            message,
        } = self;
        write!(f, "{}:{}: ", place.line, place.column)?;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        f.write_str(message)?;
        match scenario {
            Some(name) => write!(f, " (in the scenario {name:?})"),
            None => Ok(()),
        }
    }
}

/// All [lines](Self::lines) as one: a record of a log.
impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(&line)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(error) => Some(error),
            Cause::Problems(_) => None,
        }
    }
}
