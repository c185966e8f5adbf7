use std::error::Error;
use std::fmt;

/// An invalid setting of a limit: its name, its value, and the values that are allowed.
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
    /// Creates an error about the option `field`, for rules that check their own options.
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

    /// Returns the name of the option.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns the value that was passed.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns the values that are allowed.
    ///
    /// It continues the word "expected", as in `at least 1`.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.rule
    }
}

/// A failed check, in a form that constant functions can return: `new` panics with it and `try_new` reports it.
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
