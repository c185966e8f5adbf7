//! The error of a description from which no rule can be built.

use plimsoll::InvalidLimit;

use crate::path::{Places, Step};
use crate::problem::Problem;

/// An error of a description: the rule that is built from it rejects a value.
///
/// It has the path of the field in the description, from which [`problem`](Self::problem) finds its place in the file.
///
/// ```
/// use plimsoll_spec::{Limiter, Places, Units, document, read_one};
///
/// let root = document("{ kind: token_bucket, burst: 5, refill: 1, every: 1s, initial: 9 }", "a limiter")?;
/// let limiter: Limiter = read_one(&root, Units::Required)?;
/// let invalid = limiter.kind.check().unwrap_err();
/// let problem = invalid.problem(&[], &Places::of(&root));
/// assert_eq!((problem.field(), problem.place().column), ("initial", 64));
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Debug)]
pub struct InvalidSpec {
    path: Vec<Step<'static>>,
    invalid: InvalidLimit,
}

impl InvalidSpec {
    /// Creates an error in the field `field`, which may have another name in the rule.
    #[must_use]
    pub fn of(field: &'static str, invalid: InvalidLimit) -> Self {
        let path = vec![Step::Key(field)];
        Self { path, invalid }
    }

    /// Returns the same error, with `step` in front of its path.
    #[must_use]
    pub fn under(mut self, step: Step<'static>) -> Self {
        self.path.insert(0, step);
        self
    }

    /// Returns the error of the rule, with the rejected value and the condition.
    #[must_use]
    pub const fn invalid(&self) -> &InvalidLimit {
        &self.invalid
    }

    /// Returns the error of the rule, without the path.
    #[must_use]
    pub fn into_invalid(self) -> InvalidLimit {
        self.invalid
    }

    /// Returns the problem in a file whose description is at `path`. Its place is the field, or the description if the
    /// file does not have the field and the default is invalid together with other fields.
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
