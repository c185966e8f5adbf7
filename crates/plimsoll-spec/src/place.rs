//! A position in a file.

/// A position in a file, both numbers counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Place {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position after the last character of `text`.
    pub(crate) fn end_of(text: &str) -> Self {
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self {
            line: text.matches('\n').count() + 1,
            column: last.chars().count() + 1,
        }
    }
}
