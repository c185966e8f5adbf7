//! Access to maps, lists and enums of a tree for serde.

use std::cell::Cell;
use std::rc::Rc;

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess};

use super::error::Error;
use super::recover::Aside;
use super::value::{Part, Tree};
use crate::problem::label;
use crate::tree::{Entry, Node};

/// The fields of a map, one by one.
pub(super) struct Map<'t, 'a> {
    node: &'t Node,
    aside: &'a Aside<'t>,
    entries: std::slice::Iter<'t, Entry>,
    /// Missing fields, which are made up.
    made_up: Vec<&'static str>,
    /// Whether its fields are free names, so that entries that were set aside can be left out.
    names: bool,
    /// Only these fields are read, if set.
    only: Option<&'static [&'static str]>,
    /// Fields that were already read.
    read: Vec<&'static str>,
    what: String,
    value: Option<&'t Entry>,
}

impl<'t, 'a> Map<'t, 'a> {
    pub(super) fn new(
        node: &'t Node,
        entries: &'t [Entry],
        what: String,
        aside: &'a Aside<'t>,
    ) -> Self {
        Self {
            node,
            aside,
            entries: entries.iter(),
            made_up: aside.missing(node),
            names: false,
            only: None,
            read: Vec::new(),
            what,
            value: None,
        }
    }

    /// A map of names.
    pub(super) fn of_names(mut self) -> Self {
        self.names = true;
        self
    }

    /// Restricts the map to these fields.
    pub(super) fn only(mut self, known: &'static [&'static str]) -> Self {
        self.only = Some(known);
        self
    }

    /// Leaves out the fields that were already `read`.
    pub(super) fn without(mut self, read: Vec<&'static str>) -> Self {
        self.read = read;
        self
    }

    fn looks_at(&self, key: &str) -> bool {
        !self.read.contains(&key) && self.only.is_none_or(|only| only.contains(&key))
    }
}

impl<'t> MapAccess<'t> for Map<'t, '_> {
    type Error = Error<'t>;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error<'t>> {
        let entry = loop {
            match self.entries.next() {
                None => break None,
                Some(entry) if self.aside.has_entry(entry) => {}
                Some(entry) if self.names && self.aside.has_value(&entry.value) => {}
                Some(entry) if self.looks_at(&entry.key) => break Some(entry),
                Some(_) => {}
            }
        };
        let Some(entry) = entry else {
            self.value = None;
            while let Some(field) = self.made_up.pop() {
                if self.looks_at(field) {
                    return seed.deserialize(StrDeserializer::new(field)).map(Some);
                }
            }
            return Ok(None);
        };
        self.value = Some(entry);
        let what = self.what.split(" such as ").next().unwrap_or_default();
        let what = what.split(": ").next().unwrap_or_default();
        seed.deserialize(StrDeserializer::new(&entry.key))
            .map(Some)
            .map_err(|error: Error<'t>| error.at_key(entry, what, &self.read))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error<'t>> {
        let Some(entry) = self.value.take() else {
            return seed.deserialize(Tree::made_up(self.node, self.aside));
        };
        seed.deserialize(Tree::whole(&entry.value, self.aside))
            .map_err(|error| error.at(&entry.value))
            .map_err(|error| error.under(|problem| problem.under_key(&label(&entry.key))))
    }
}

/// The items of a list.
pub(super) struct Items<'t, 'a> {
    pub(super) items: &'t [Node],
    pub(super) next: usize,
    pub(super) aside: &'a Aside<'t>,
}

impl<'t> SeqAccess<'t> for Items<'t, '_> {
    type Error = Error<'t>;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error<'t>> {
        let left = self.items.iter().enumerate().skip(self.next);
        let mut left = left.filter(|(_, item)| !self.aside.has_value(item));
        let Some((index, item)) = left.next() else {
            return Ok(None);
        };
        self.next = index + 1;
        seed.deserialize(Tree::whole(item, self.aside))
            .map(Some)
            .map_err(|error| error.at(item))
            .map_err(|error| error.under(|problem| problem.under_index(index)))
    }
}

/// The two parts of a struct that share a map: first the fields that the first part knows, then the rest.
pub(super) struct Halves<'t, 'a> {
    node: &'t Node,
    aside: &'a Aside<'t>,
    /// Fields that were read already, if the struct is itself a part of another.
    read: Vec<&'static str>,
    known: Rc<Cell<&'static [&'static str]>>,
    first: bool,
}

impl<'t, 'a> Halves<'t, 'a> {
    pub(super) fn of(node: &'t Node, read: Vec<&'static str>, aside: &'a Aside<'t>) -> Self {
        Self {
            node,
            aside,
            read,
            known: Rc::default(),
            first: true,
        }
    }
}

impl<'t> SeqAccess<'t> for Halves<'t, '_> {
    type Error = Error<'t>;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error<'t>> {
        let part = if std::mem::replace(&mut self.first, false) {
            Part::Known(Rc::clone(&self.known))
        } else {
            let read = [&self.read, self.known.get()].concat();
            Part::Rest(read, String::new())
        };
        let tree = Tree {
            part,
            ..Tree::whole(self.node, self.aside)
        };
        seed.deserialize(tree).map(Some)
    }
}

/// One of several variants, by a word.
pub(super) struct Choice<'t, 'a> {
    /// The field that holds the word.
    pub(super) tag: Option<&'static str>,
    pub(super) word: String,
    pub(super) at: &'t Node,
    pub(super) content: Tree<'t, 'a>,
}

impl<'t, 'a> EnumAccess<'t> for Choice<'t, 'a> {
    type Error = Error<'t>;
    type Variant = Tree<'t, 'a>;

    fn variant_seed<V: DeserializeSeed<'t>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Tree<'t, 'a>), Error<'t>> {
        let word: StringDeserializer<Error<'t>> = self.word.into_deserializer();
        let chosen = seed.deserialize(word).map_err(|error| {
            let error = error.at(self.at);
            match self.tag {
                Some(tag) => error.under(|problem| problem.under_key(tag)),
                None => error,
            }
        })?;
        Ok((chosen, self.content))
    }
}
