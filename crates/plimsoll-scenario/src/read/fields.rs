//! Maps and lists: known fields only, and every problem inside them learns where it is.

use crate::error::{Problem, Read, label};
use crate::tree::{Entry, Node, Place, Value};

use super::scalar::{expected, nearest};

/// The fields of one map.
pub(crate) struct Fields<'t> {
    pub(crate) place: Place,
    entries: &'t [Entry],
}

impl<'t> Fields<'t> {
    /// Opens a map whose fields must all be among `known`. `what` names the map in the message if it is none.
    ///
    /// Unknown fields are refused before anything else is looked at: of `brust: 3` one wants to hear that it is
    /// unknown, not that `burst` is missing.
    pub(crate) fn of(node: &'t Node, what: &str, known: &[&str]) -> Read<Self> {
        let fields = Self::any(node, what)?;
        fields.only(what, known)?;
        Ok(fields)
    }

    /// Opens a map whose fields are not known before one of them is read.
    pub(crate) fn any(node: &'t Node, what: &str) -> Read<Self> {
        match &node.value {
            Value::Map(entries) => Ok(Self {
                place: node.place,
                entries,
            }),
            _ => Err(expected(what, node)),
        }
    }

    pub(crate) fn only(&self, what: &str, known: &[&str]) -> Read<()> {
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

    pub(crate) fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'t Node) -> Read<T>,
    ) -> Read<T> {
        let missing = || Problem::new(self.place, "this field is missing").under_key(name);
        self.optional(name, read)?.ok_or_else(missing)
    }

    pub(crate) fn optional<T>(
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

    pub(crate) fn get(&self, name: &str) -> Option<&'t Entry> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'t Entry> {
        self.entries.iter()
    }

    /// A problem of the field `name` itself: it should not be here, or not with the others.
    pub(crate) fn problem(&self, name: &str, message: impl Into<String>) -> Problem {
        let place = self.get(name).map_or(self.place, |entry| entry.place);
        Problem::new(place, message).under_key(name)
    }
}

/// Reads every item of a list that must not be empty.
pub(crate) fn each<'t, T>(
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
