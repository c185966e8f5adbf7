//! Values of a file, each with its place.

use std::fmt;

use crate::place::Place;

/// A value of a file, and its place.
///
/// [`document`](crate::document) and [`Format::tree`](crate::Format::tree) make a tree of nodes; [`read_one`](crate::read_one) and
/// [`Fields`](crate::Fields) read it.
#[derive(Debug, Clone)]
pub struct Node {
    /// The place of the first character of the value.
    pub place: Place,
    /// The value.
    pub value: Value,
    /// The text of the file, if the value was substituted. Messages show this text, because the value may be a secret.
    pub written: Option<Box<Written>>,
}

/// The text of the file for a value that was substituted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Written {
    /// A text with variables: `redis://${USER}@host`.
    Text(String),
    /// `{ env: NAME }`.
    Env(String),
    /// `{ file: PATH }`.
    File(String),
}

/// The value of a node. Scalars are text, because the field determines whether `1` is a cost or a name.
///
/// The enum is exhaustive: YAML, JSON and TOML have no other values.
#[derive(Debug, Clone)]
pub enum Value {
    /// A single value.
    Scalar {
        /// The text in the file, without quotes.
        text: String,
        /// Whether it was in quotes.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file.
    Map(Vec<Entry>),
}

/// One field of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name of the field.
    pub key: String,
    /// The place of the name.
    pub place: Place,
    /// The value of the field.
    pub value: Node,
}

/// The text as it is in the file.
impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Env(name) => write!(f, "{{ env: {name} }}"),
            Self::File(path) => write!(f, "{{ file: {path} }}"),
        }
    }
}

impl Entry {
    /// Creates a field with a text as its value, for trees that a program changes before it reads them.
    ///
    /// ```
    /// use plimsoll_spec::{Entry, Place, scalar};
    ///
    /// let entry = Entry::word("kind", "concurrency", Place::START);
    /// assert_eq!(scalar::text(&entry.value)?, "concurrency");
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    #[must_use]
    pub fn word(key: &str, word: &str, place: Place) -> Self {
        let value = Value::Scalar {
            text: word.to_owned(),
            quoted: true,
        };
        Self {
            key: key.to_owned(),
            place,
            value: Node::new(place, value),
        }
    }
}

impl Node {
    /// Creates a value that was not substituted.
    #[must_use]
    pub const fn new(place: Place, value: Value) -> Self {
        Self {
            place,
            value,
            written: None,
        }
    }

    /// Sets the number of the file of this value and of all values in it.
    pub fn set_file(&mut self, file: usize) {
        self.place.file = file;
        match &mut self.value {
            Value::Scalar { .. } => {}
            Value::List(items) => items.iter_mut().for_each(|item| item.set_file(file)),
            Value::Map(entries) => {
                for entry in entries {
                    entry.place.file = file;
                    entry.value.set_file(file);
                }
            }
        }
    }

    /// Returns whether the value is `~`, `null` or empty, without quotes.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// The size of this subtree.
    pub(crate) fn extent(&self) -> Extent {
        let one = |bytes| Extent {
            nodes: 1,
            depth: 1,
            bytes,
        };
        let fold = |sum: Extent, child: Extent| Extent {
            nodes: sum.nodes + child.nodes,
            depth: sum.depth.max(child.depth + 1),
            bytes: sum.bytes + child.bytes,
        };
        match &self.value {
            Value::Scalar { text, .. } => one(text.len()),
            Value::List(items) => items.iter().map(Self::extent).fold(one(0), fold),
            Value::Map(entries) => {
                let keys = entries.iter().map(|entry| entry.key.len()).sum();
                let values = entries.iter().map(|entry| entry.value.extent());
                values.fold(one(keys), fold)
            }
        }
    }
}

/// The size of a subtree.
pub(crate) struct Extent {
    pub(crate) nodes: usize,
    pub(crate) depth: usize,
    /// The bytes of its text.
    pub(crate) bytes: usize,
}
