//! The three formats, and how each becomes a tree.

use std::path::Path;

use serde::de::IgnoredAny;

use crate::place::Place;
use crate::problem::{Problem, Read};
use crate::toml_tree;
use crate::tree::{Node, document};

/// What a file is written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// YAML, of which JSON is a part.
    Yaml,
    /// TOML.
    Toml,
    /// JSON, and nothing of YAML besides.
    Json,
}

impl Format {
    /// The format by the end of a file's name: `.toml`, `.json`, and YAML for everything else.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("toml") => Self::Toml,
            Some("json") => Self::Json,
            _ => Self::Yaml,
        }
    }

    /// Reads the one document of `text`. `what` names it in the message if there is nothing in it.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it in this format.
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

/// The YAML parser reads JSON and knows all places, but would read more than JSON.
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

/// The column in characters, of one in bytes.
fn column(text: &str, line: usize, bytes: usize) -> usize {
    let line = text.split('\n').nth(line.saturating_sub(1));
    let line = line.unwrap_or_default();
    let before = |(at, _): &(usize, char)| *at + 1 < bytes;
    line.char_indices().take_while(before).count() + 1
}
