//! Values of a file, each with its place.

use std::fmt;

use crate::place::Place;

/// A value and where it begins.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// What it holds.
    pub value: Value,
    /// How it stands in the file, if its text comes from elsewhere: messages show this in place of the text.
    pub written: Option<Box<Written>>,
}

/// How a value stands in a file whose text comes from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Written {
    /// With variables in it: `redis://${USER}@host`.
    Text(String),
    /// `{ env: NAME }`.
    Env(String),
    /// `{ file: PATH }`.
    File(String),
}

/// What a node holds. Scalars stay text: whether `1` is a cost or a name depends on the field.
#[derive(Debug, Clone)]
pub enum Value {
    /// A single value.
    Scalar {
        /// As it stands in the file, without quotes.
        text: String,
        /// Whether it was in quotes.
        quoted: bool,
    },
    /// Several values.
    List(Vec<Node>),
    /// Values with names.
    Map(Vec<Entry>),
}

/// One field of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Where the name begins.
    pub place: Place,
    /// Its value.
    pub value: Node,
}

/// As it stands in a file.
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
    /// A field that holds a word.
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
    /// A value as it stands in a file.
    #[must_use]
    pub const fn new(place: Place, value: Value) -> Self {
        Self {
            place,
            value,
            written: None,
        }
    }

    /// Says of this value, and of all in it, which file they are in.
    pub fn put_into(&mut self, file: usize) {
        self.place.file = file;
        match &mut self.value {
            Value::Scalar { .. } => {}
            Value::List(items) => items.iter_mut().for_each(|item| item.put_into(file)),
            Value::Map(entries) => {
                for entry in entries {
                    entry.place.file = file;
                    entry.value.put_into(file);
                }
            }
        }
    }

    /// `~`, `null` or nothing at all.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// How large this subtree is.
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

/// How large a subtree is.
pub(crate) struct Extent {
    pub(crate) nodes: usize,
    pub(crate) depth: usize,
    /// Of its text.
    pub(crate) bytes: usize,
}
