//! What is wrong in a file: where, in which field, what was found and what was expected.

use std::fmt;

use crate::place::Place;

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
    message: String,
}

impl Problem {
    /// A problem at `place`.
    #[must_use]
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            field: String::new(),
            message: message.into(),
        }
    }

    /// The same problem, with a hint at what to write instead.
    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
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

    /// The same problem, with a remark after its message, such as the name of the part of the file it is in.
    #[must_use]
    pub fn remark(mut self, remark: impl fmt::Display) -> Self {
        self.message = format!("{} ({remark})", self.message);
        self
    }

    /// The same problem, in another of several files.
    #[must_use]
    pub const fn in_file(mut self, file: usize) -> Self {
        self.place.file = file;
        self
    }

    /// The path of the field, such as `limiters.api.every`; empty if the problem is about the whole file.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
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

/// Place, field and message, without the file.
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
