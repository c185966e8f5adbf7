//! Readers of maps and lists, which reject unknown fields and add the path to problems.

use crate::place::Place;
use crate::problem::{Problem, Read, label};
use crate::scalar::{expected, nearest};
use crate::tree::{Entry, Node, Value};

/// The fields of one map, for reading a file by hand.
///
/// ```
/// use plimsoll_spec::scalar::{positive, text};
/// use plimsoll_spec::{Fields, document};
///
/// let root = document("{ name: api, limit: 20 }", "a limit")?;
/// let fields = Fields::of(&root, "a limit", &["name", "limit", "burst"])?;
/// assert_eq!(fields.required("name", text)?, "api");
/// assert_eq!(fields.required("limit", positive)?, 20);
/// assert_eq!(fields.optional("burst", positive)?, None);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Debug)]
pub struct Fields<'t> {
    /// The place of the map.
    pub place: Place,
    entries: &'t [Entry],
}

impl<'t> Fields<'t> {
    /// Opens a map whose fields must all be among `known`. `what` describes the map in messages.
    ///
    /// Unknown fields are rejected first: for `brust: 3` the message is that `brust` is unknown, not that `burst` is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if `node` is not a map, or has an unknown field.
    pub fn of(node: &'t Node, what: &str, known: &[&str]) -> Read<Self> {
        let fields = Self::any(node, what)?;
        fields.only(what, known)?;
        Ok(fields)
    }

    /// Opens a map without checking its fields. [`only`](Self::only) checks them later, when one of them has been read.
    ///
    /// # Errors
    ///
    /// Returns an error if `node` is not a map.
    pub fn any(node: &'t Node, what: &str) -> Read<Self> {
        match &node.value {
            Value::Map(entries) => Ok(Self {
                place: node.place,
                entries,
            }),
            _ => Err(expected(what, node)),
        }
    }

    /// Checks that all fields are among `known`.
    ///
    /// # Errors
    ///
    /// Returns an error for the first unknown field, with the nearest known name.
    pub fn only(&self, what: &str, known: &[&str]) -> Read<()> {
        let Some(unknown) = self
            .entries
            .iter()
            .find(|entry| !known.contains(&entry.key.as_str()))
        else {
            return Ok(());
        };
        let hint = nearest(&unknown.key, known.iter().copied());
        let message = format!("unknown field of {what}{hint}");
        Err(Problem::new(unknown.place, message).under_key(&label(&unknown.key)))
    }

    /// Reads a required field.
    ///
    /// # Errors
    ///
    /// Returns an error if the map does not have the field, or `read` fails.
    pub fn required<T>(&self, name: &str, read: impl FnOnce(&'t Node) -> Read<T>) -> Read<T> {
        let missing = || Problem::new(self.place, "this field is missing").under_key(name);
        self.optional(name, read)?.ok_or_else(missing)
    }

    /// Reads an optional field.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`.
    pub fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'t Node) -> Read<T>,
    ) -> Read<Option<T>> {
        let Some(entry) = self.get(name) else {
            return Ok(None);
        };
        read(&entry.value)
            .map(Some)
            .map_err(|problem| problem.under_key(name))
    }

    /// Returns the field `name`. `None` if the map does not have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'t Entry> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    /// Returns all fields, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &'t Entry> {
        self.entries.iter()
    }

    /// Returns a problem at the name of the field `name`, for example because it does not go with another field.
    #[must_use]
    pub fn problem(&self, name: &str, message: impl Into<String>) -> Problem {
        let place = self.get(name).map_or(self.place, |entry| entry.place);
        Problem::new(place, message).under_key(name)
    }
}

/// Reads every item of a list that must not be empty.
///
/// # Errors
///
/// Returns an error if `node` is not a list or is empty, or `read` fails for an item.
pub fn each<'t, T>(
    node: &'t Node,
    what: &str,
    mut read: impl FnMut(&'t Node) -> Read<T>,
) -> Read<Vec<T>> {
    let Value::List(items) = &node.value else {
        return Err(expected(what, node));
    };
    if items.is_empty() {
        return Err(Problem::new(
            node.place,
            format!("expected {what}, found an empty list"),
        ));
    }
    let item = |(index, item)| read(item).map_err(|problem| problem.under_index(index));
    items.iter().enumerate().map(item).collect()
}
