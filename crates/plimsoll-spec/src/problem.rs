//! A problem in a file: its place, its field, and a message with what was expected and found.

use std::fmt;

use crate::place::Place;

/// The result of reading a part of a file.
pub type Read<T> = Result<T, Problem>;

/// A problem in the text of a file.
///
/// The path of its field is built from the inside out, while the error passes through the readers of the maps and lists
/// around it, so that reading a correct file costs nothing for paths.
///
/// ```
/// use plimsoll_spec::{Place, Problem};
///
/// let problem = Problem::new(Place::new(3, 5), "expected a number").under_index(2).under_key("limits");
/// assert_eq!(problem.field(), "limits[2]");
/// assert_eq!(problem.to_string(), "3:5: limits[2]: expected a number");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    place: Place,
    field: String,
    message: String,
}

impl Problem {
    /// Creates a problem at `place`.
    #[must_use]
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            field: String::new(),
            message: message.into(),
        }
    }

    /// The same problem, with a hint for what to write instead.
    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.message = format!("{}, {hint}", self.message);
        self
    }

    /// Returns the same problem, with the field `key` in front of its path.
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

    /// Returns the same problem, with the index `index` in front of its path.
    #[must_use]
    pub fn under_index(self, index: usize) -> Self {
        self.under_key(&format!("[{index}]"))
    }

    /// Returns the same problem, with a remark after its message.
    #[must_use]
    pub fn remark(mut self, remark: impl fmt::Display) -> Self {
        self.message = format!("{} ({remark})", self.message);
        self
    }

    /// Returns the same problem, in the file with this number.
    #[must_use]
    pub const fn in_file(mut self, file: usize) -> Self {
        self.place.file = file;
        self
    }

    /// Returns the path of the field, such as `limiters.api.every`; empty if the problem is about the whole file.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the place of the problem.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }
}

/// Returns the name of a field as part of a path. A name of more than 40 characters or with unusual ones is shortened
/// and quoted, so that a message stays one readable line.
#[must_use]
pub fn label(key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-".contains(c);
    if !key.is_empty() && key.chars().count() <= 40 && key.chars().all(plain) {
        return key.to_owned();
    }
    quote(key)
}

/// Returns a text from a file in quotes, on one line, shortened to 40 characters.
///
/// ```
/// assert_eq!(plimsoll_spec::quote("a\nb"), r#""a\nb""#);
/// assert_eq!(plimsoll_spec::label("max_keys"), "max_keys");
/// ```
#[must_use]
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Place, field and message, without the name of the file.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            field,
            message,
        } = self;
        write!(f, "{}:{}: ", place.line, place.column)?;
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        f.write_str(message)
    }
}
