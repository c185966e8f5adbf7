use std::error::Error;
use std::fmt;

/// A limit that cannot be: which option is wrong, what it was, and what it must be.
///
/// The `try_` constructors return it. The constructors without `try_` make the same check, and panic.
///
/// ```
/// use plimsoll::Concurrency;
///
/// let invalid = Concurrency::try_new(0).unwrap_err();
/// assert_eq!(invalid.to_string(), "`limit` is 0: expected at least 1");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidLimit {
    field: &'static str,
    value: String,
    rule: &'static str,
}

impl InvalidLimit {
    /// An error about the option `field`, for rules that check their own options.
    ///
    /// ```
    /// use plimsoll::InvalidLimit;
    ///
    /// let invalid = InvalidLimit::new("window", "0s", "at least 1ns");
    /// assert_eq!((invalid.field(), invalid.value(), invalid.rule()), ("window", "0s", "at least 1ns"));
    /// ```
    #[must_use]
    pub fn new(field: &'static str, value: impl fmt::Display, rule: &'static str) -> Self {
        Self {
            field,
            value: value.to_string(),
            rule,
        }
    }

    /// The name of the option.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// The value that was passed.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What was expected instead.
    ///
    /// It goes on after the word "expected", as in `at least 1`.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.rule
    }
}

/// A check that failed, in a form that constant functions can return: what `new` panics with and `try_new` reports.
#[derive(Clone, Copy)]
pub(crate) struct Unmet {
    pub(crate) field: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) message: &'static str,
}

impl Unmet {
    #[track_caller]
    pub(crate) const fn panic(self) -> ! {
        panic!("{}", self.message)
    }

    pub(crate) fn with(self, value: impl fmt::Display) -> InvalidLimit {
        InvalidLimit::new(self.field, value, self.rule)
    }
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is {}: expected {}",
            self.field, self.value, self.rule
        )
    }
}

impl Error for InvalidLimit {}
