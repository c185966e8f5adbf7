//! Maps and lists: known fields only, and every problem inside them learns where it is.

use crate::place::Place;
use crate::problem::{Problem, Read, label};
use crate::scalar::{expected, nearest};
use crate::tree::{Entry, Node, Value};

/// The fields of one map.
#[derive(Debug)]
pub struct Fields<'t> {
    /// Where the map begins.
    pub place: Place,
    entries: &'t [Entry],
}

impl<'t> Fields<'t> {
    /// Opens a map whose fields must all be among `known`. `what` names the map in the message if it is none.
    ///
    /// Unknown fields are refused before anything else is looked at: of `brust: 3` one wants to hear that it is
    /// unknown, not that `burst` is missing.
    ///
    /// # Errors
    ///
    /// If it is no map, or has another field.
    pub fn of(node: &'t Node, what: &str, known: &[&str]) -> Read<Self> {
        let fields = Self::any(node, what)?;
        fields.only(what, known)?;
        Ok(fields)
    }

    /// Opens a map whose fields are not known before one of them is read.
    ///
    /// # Errors
    ///
    /// If it is no map.
    pub fn any(node: &'t Node, what: &str) -> Read<Self> {
        match &node.value {
            Value::Map(entries) => Ok(Self {
                place: node.place,
                entries,
            }),
            _ => Err(expected(what, node)),
        }
    }

    /// Refuses fields that are not among `known`.
    ///
    /// # Errors
    ///
    /// If there is one.
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

    /// Reads a field that must be there.
    ///
    /// # Errors
    ///
    /// If it is not there, or not what `read` wants.
    pub fn required<T>(&self, name: &str, read: impl FnOnce(&'t Node) -> Read<T>) -> Read<T> {
        let missing = || Problem::new(self.place, "this field is missing").under_key(name);
        self.optional(name, read)?.ok_or_else(missing)
    }

    /// Reads a field that may be there.
    ///
    /// # Errors
    ///
    /// If it is not what `read` wants.
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

    /// The field `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'t Entry> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    /// All fields, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &'t Entry> {
        self.entries.iter()
    }

    /// A problem of the field `name` itself: it should not be here, or not with the others.
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
/// If it is no list, or empty, or an item is not what `read` wants.
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
