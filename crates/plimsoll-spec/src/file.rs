//! Reads the text of files, and reports their mistakes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::place::Place;
use crate::problem::Problem;

/// The longest file that is read. A longer one is not a file of limits.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the text of a file, of at most 16 MiB.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is longer, or is not UTF-8. The place of invalid UTF-8 is its first
/// byte.
pub fn text_of(path: &Path) -> Result<String, FileError> {
    let bytes = bytes_of(path).map_err(|error| FileError::io(path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()])
            .into_owned();
        FileError::problem(
            path,
            Problem::new(Place::end_of(&text), "this is not UTF-8 text"),
        )
    })
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "larger than {} MiB",
            MAX_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// The error of a file that cannot be read, or has mistakes.
///
/// Each mistake is one line: `limits.yaml:7:34: scenarios[0].steps[2].expect.retry_after: expected …, found …`. A reader that
/// looks for all mistakes reports several: see [`lines`](Self::lines). Indices count from 0, lines and columns from 1.
///
/// ```
/// use plimsoll_spec::{FileError, Place, Problem};
///
/// let problem = Problem::new(Place::new(7, 34), "expected a number, found \"x\"").under_key("limit");
/// let error = FileError::problem("limits.yaml".as_ref(), problem);
/// assert_eq!((error.line(), error.column(), error.field()), (Some(7), Some(34), Some("limit")));
/// assert_eq!(error.to_string(), "limits.yaml:7:34: limit: expected a number, found \"x\"");
/// ```
#[derive(Debug)]
pub struct FileError {
    /// At least one: the file itself, and the files that it includes.
    files: Vec<PathBuf>,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Io(io::Error),
    /// At least one, in the order of the file.
    Problems(Vec<Problem>),
}

impl FileError {
    fn io(path: &Path, error: io::Error) -> Self {
        Self {
            files: vec![path.to_owned()],
            cause: Cause::Io(error),
        }
    }

    /// Creates the error of a file with one problem.
    #[must_use]
    pub fn problem(path: &Path, problem: Problem) -> Self {
        Self {
            files: vec![path.to_owned()],
            cause: Cause::Problems(vec![problem]),
        }
    }

    /// Creates the error of several problems, in the order of the files: the file itself, and those that it includes.
    /// `None` if there are no problems.
    #[must_use]
    pub fn problems(files: &[PathBuf], mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort_by_key(|problem| {
            let Place { line, column, file } = problem.place();
            (file, line, column)
        });
        problems.dedup();
        (!problems.is_empty()).then(|| Self {
            files: files.to_vec(),
            cause: Cause::Problems(problems),
        })
    }

    /// Returns the first problem, for a program that shows it in a form of its own.
    ///
    /// # Errors
    ///
    /// Returns the I/O error if the file could not be read.
    pub fn into_problem(self) -> Result<Problem, io::Error> {
        match self.cause {
            Cause::Io(error) => Err(error),
            Cause::Problems(problems) => {
                let first = problems.into_iter().next();
                first.ok_or_else(|| io::Error::other("nothing is wrong"))
            }
        }
    }

    /// Returns all problems, one line each, in the order of the files, such as `limits.yaml:7:34: limiters.api.every:
    /// expected …, found …`. If the file could not be read, it is one line with the I/O error.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let path = self.path().display();
        let (io, problems) = match &self.cause {
            Cause::Io(error) => (Some(error), &[][..]),
            Cause::Problems(problems) => (None, problems.as_slice()),
        };
        let io = io.map(|error| format!("{path}: cannot be read: {error}"));
        let line = |problem: &Problem| {
            let file = self.files.get(problem.place().file);
            let file = file.map_or(self.path(), PathBuf::as_path);
            format!("{}:{problem}", file.display())
        };
        let problems = problems.iter().map(line);
        io.into_iter().chain(problems)
    }

    /// Returns the path of the file; if it includes others, of the including file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Returns the paths of the file and of those that it includes, as far as they were read.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the line of the first problem, from 1. `None` if the file could not be read.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.as_problem().map(|problem| problem.place().line)
    }

    /// Returns the column of the first problem, from 1, counted in characters. `None` if the file could not be read.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.as_problem().map(|problem| problem.place().column)
    }

    /// Returns the path of the field of the first problem, such as `scenarios[3].steps[2].at`. `None` if it is not in a
    /// field.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.as_problem()
            .map(Problem::field)
            .filter(|field| !field.is_empty())
    }

    /// The first problem.
    fn as_problem(&self) -> Option<&Problem> {
        match &self.cause {
            Cause::Io(_) => None,
            Cause::Problems(problems) => problems.first(),
        }
    }
}

/// All [lines](Self::lines) on one line, for a log.
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
