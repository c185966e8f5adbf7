//! Errors of deserialisation: serde's messages, and then ours, with a place.

use std::fmt;

use serde::de::{Expected, Unexpected};

use super::names::instead;
use super::recover::Blame;
use crate::problem::{Problem, label, quote};
use crate::scalar::{expected, nearest};
use crate::tree::{Entry, Node, Value};

/// An error that is being returned. It starts without a place, and gets that of the innermost value around it.
#[derive(Debug)]
pub(crate) enum Error<'t> {
    /// The value is not of this description.
    Expected(String),
    UnknownField(String, &'static [&'static str]),
    UnknownWord(String, &'static [&'static str]),
    Missing(&'static str),
    Other(String),
    /// A problem with its place, and its cause once that is known.
    Placed(Problem, Option<Blame<'t>>),
}

impl<'t> Error<'t> {
    /// The error, seen from the value in which it happened.
    pub(crate) fn at(self, node: &'t Node) -> Self {
        let place = node.place;
        let mut blame = Blame::Value(node);
        let problem = match self {
            Self::Expected(what) => expected(&what, node),
            Self::UnknownWord(word, known) => {
                let hint = instead(&word).unwrap_or_else(|| nearest(&word, known.iter().copied()));
                let shown = node.written.as_ref().map(ToString::to_string);
                let word = shown.unwrap_or(word);
                Problem::new(place, format!("unknown word {}{hint}", quote(&word)))
            }
            Self::Missing(field) => {
                blame = Blame::Missing(node, field);
                Problem::new(place, "this field is missing").under_key(field)
            }
            Self::UnknownField(field, _) => Problem::new(place, "unknown field").under_key(&field),
            Self::Other(message) => Problem::new(place, as_written(message, node)),
            Self::Placed(problem, known) => {
                blame = known.unwrap_or(blame);
                problem
            }
        };
        Self::Placed(problem, Some(blame))
    }

    /// The error, seen from the name of a field of `what`. Other readers read the fields of `more`.
    pub(crate) fn at_key(self, entry: &'t Entry, what: &str, more: &[&'static str]) -> Self {
        let Self::UnknownField(field, known) = self else {
            return self;
        };
        let hint = nearest(&field, known.iter().chain(more).copied());
        let problem = Problem::new(entry.place, format!("unknown field of {what}{hint}"));
        let problem = problem.under_key(&label(&field));
        Self::Placed(problem, Some(Blame::Unknown(entry)))
    }

    pub(crate) fn under(self, step: impl FnOnce(Problem) -> Problem) -> Self {
        match self {
            Self::Placed(problem, blame) => Self::Placed(step(problem), blame),
            other => other,
        }
    }

    /// The problem and its cause, `root` if the cause is unknown.
    pub(crate) fn into_problem(self, root: &'t Node) -> (Problem, Blame<'t>) {
        match self.at(root) {
            Self::Placed(problem, blame) => (problem, blame.unwrap_or(Blame::Value(root))),
            other => (
                Problem::new(root.place, other.to_string()),
                Blame::Value(root),
            ),
        }
    }
}

/// A message that shows the text of the file, instead of a substituted value.
fn as_written(message: String, node: &Node) -> String {
    match (&node.written, &node.value) {
        (Some(written), Value::Scalar { text, .. }) => {
            message.replace(&quote(text), &quote(&written.to_string()))
        }
        _ => message,
    }
}

impl From<Problem> for Error<'_> {
    fn from(problem: Problem) -> Self {
        Self::Placed(problem, None)
    }
}

impl serde::de::Error for Error<'_> {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn invalid_type(_found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Expected(wanted.to_string())
    }

    fn invalid_value(_found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Expected(wanted.to_string())
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownField(field.to_owned(), known)
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownWord(word.to_owned(), known)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Error<'_> {}
