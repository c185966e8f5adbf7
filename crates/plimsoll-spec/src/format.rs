//! The formats of files, and parsing them to a tree.

use std::path::Path;

use serde::de::IgnoredAny;

use crate::place::Place;
use crate::problem::{Problem, Read};
use crate::toml_tree;
use crate::tree::{Node, document};

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// YAML, which includes JSON.
    Yaml,
    /// TOML.
    Toml,
    /// Strict JSON.
    Json,
}

impl Format {
    /// Returns the format that the extension of a file indicates: TOML for `.toml`, JSON for `.json`, and YAML for
    /// everything else.
    ///
    /// ```
    /// use plimsoll_spec::Format;
    ///
    /// assert_eq!(Format::of("limits.toml".as_ref()), Format::Toml);
    /// assert_eq!(Format::of("limits.yml".as_ref()), Format::Yaml);
    /// ```
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("toml") => Self::Toml,
            Some("json") => Self::Json,
            _ => Self::Yaml,
        }
    }

    /// Parses the document of `text`. `what` describes it in the message if it is empty.
    ///
    /// ```
    /// use plimsoll_spec::{Format, Queue, Units, read_one};
    ///
    /// let root = Format::Toml.tree("bound = 10\norder = \"lifo\"\n", "a queue")?;
    /// assert_eq!(read_one::<Queue>(&root, Units::Required)?.bound, 10);
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first syntax error, with its place.
    pub fn tree(self, text: &str, what: &str) -> Read<Node> {
        match self {
            Self::Yaml => document(text, what),
            Self::Toml => toml_tree::tree(text),
            Self::Json => {
                check_json(text)?;
                document(text, what)
            }
        }
    }
}

/// Checks that a text is strict JSON. The YAML parser reads it then, because it reports all places.
fn check_json(text: &str) -> Read<()> {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else {
        return Ok(());
    };
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let column = column(text, error.line(), error.column());
    let place = Place::new(error.line().max(1), column);
    Err(Problem::new(place, format!("not JSON: {message}")))
}

/// Converts a column in bytes to one in characters.
fn column(text: &str, line: usize, bytes: usize) -> usize {
    let line = text.split('\n').nth(line.saturating_sub(1));
    let line = line.unwrap_or_default();
    let before = |(at, _): &(usize, char)| *at + 1 < bytes;
    line.char_indices().take_while(before).count() + 1
}
