//! What goes wrong while types are filled: serde's words, and then ours, with a place.

use std::fmt;

use plimsoll_scenario::reader::scalar::{expected, nearest};
use plimsoll_scenario::reader::{Node, Place, Problem, label, quote};
use serde::de::{Expected, Unexpected};

/// An error on its way up. It begins without a place, and gets the one of the innermost value around it.
#[derive(Debug)]
pub(crate) enum Error {
    /// The value is not this.
    Expected(String),
    UnknownField(String, &'static [&'static str]),
    UnknownWord(String, &'static [&'static str]),
    Missing(&'static str),
    Other(String),
    Placed(Problem),
}

impl Error {
    /// The error, seen from the value in which it happened.
    pub(super) fn at(self, node: &Node) -> Self {
        let place = node.place;
        Self::Placed(match self {
            Self::Expected(what) => expected(&what, node),
            Self::UnknownWord(word, known) => {
                let hint = nearest(&word, known.iter().copied());
                Problem::new(place, format!("unknown word {}{hint}", quote(&word)))
            }
            Self::Missing(field) => Problem::new(place, "this field is missing").under_key(field),
            Self::UnknownField(field, _) => Problem::new(place, "unknown field").under_key(&field),
            Self::Other(message) => Problem::new(place, message),
            Self::Placed(problem) => problem,
        })
    }

    /// The error, seen from the name of a field of `what`, of which `more` are read elsewhere.
    pub(super) fn at_key(self, place: Place, what: &str, more: &[&'static str]) -> Self {
        let Self::UnknownField(field, known) = self else {
            return self;
        };
        let hint = nearest(&field, known.iter().chain(more).copied());
        let problem = Problem::new(place, format!("unknown field of {what}{hint}"));
        Self::Placed(problem.under_key(&label(&field)))
    }

    pub(super) fn under(self, step: impl FnOnce(Problem) -> Problem) -> Self {
        match self {
            Self::Placed(problem) => Self::Placed(step(problem)),
            other => other,
        }
    }

    /// The problem, in `root` if nobody knows better.
    pub(super) fn into_problem(self, root: &Node) -> Problem {
        match self.at(root) {
            Self::Placed(problem) => problem,
            other => Problem::new(root.place, other.to_string()),
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Placed(problem)
    }
}

impl serde::de::Error for Error {
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Error {}
