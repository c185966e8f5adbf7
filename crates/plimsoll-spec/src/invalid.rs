//! Descriptions from which no rule can be built.

use plimsoll::InvalidLimit;

use crate::path::{Places, Step};
use crate::problem::Problem;

/// A description whose rule does not accept its numbers.
#[derive(Debug)]
pub struct InvalidSpec {
    path: Vec<Step<'static>>,
    invalid: InvalidLimit,
}

impl InvalidSpec {
    /// A problem of the field `field`, which the rule may call by another name.
    #[must_use]
    pub fn of(field: &'static str, invalid: InvalidLimit) -> Self {
        let path = vec![Step::Key(field)];
        Self { path, invalid }
    }

    /// The same problem, seen from the description around it.
    #[must_use]
    pub fn under(mut self, step: Step<'static>) -> Self {
        self.path.insert(0, step);
        self
    }

    /// What the rule says of its number.
    #[must_use]
    pub const fn invalid(&self) -> &InvalidLimit {
        &self.invalid
    }

    /// What the rule says of its number, by itself.
    #[must_use]
    pub fn into_invalid(self) -> InvalidLimit {
        self.invalid
    }

    /// The problem in the words of a file: at the field of the description at `path`, or at the description itself if
    /// the field is not there and its default is wrong beside the others.
    #[must_use]
    pub fn problem(&self, path: &[Step<'_>], places: &Places<'_>) -> Problem {
        let path = [path, self.path.as_slice()].concat();
        let default = if places.has(&path) {
            ""
        } else {
            ", the default"
        };
        let (rule, value) = (self.invalid.rule(), self.invalid.value());
        places.value(&path, format!("expected {rule}, found {value}{default}"))
    }
}

impl From<InvalidLimit> for InvalidSpec {
    fn from(invalid: InvalidLimit) -> Self {
        Self::of(invalid.field(), invalid)
    }
}
