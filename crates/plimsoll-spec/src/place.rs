//! A position in a file.

/// A position in a file, line and column counted from 1.
///
/// ```
/// use plimsoll_spec::Place;
///
/// let place = Place::new(7, 34);
/// assert_eq!((place.line, place.column, place.file), (7, 34, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
    /// The number of the file, if one file includes others: 0 is the including one.
    pub file: usize,
}

impl Place {
    /// The first character of a file.
    pub const START: Self = Self::new(1, 1);

    /// Creates a position in file 0.
    #[must_use]
    pub const fn new(line: usize, column: usize) -> Self {
        Self {
            line,
            column,
            file: 0,
        }
    }

    /// The position after the last character of `text`.
    pub(crate) fn end_of(text: &str) -> Self {
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self::new(text.matches('\n').count() + 1, last.chars().count() + 1)
    }
}
