//! Maps, lists and choices of a tree, as serde goes through them.

use std::cell::Cell;
use std::rc::Rc;

use plimsoll_scenario::reader::{Entry, Node, label};
use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{Error, Part, Tree};

/// The fields of a map, one after the other.
pub(super) struct Map<'t> {
    entries: std::slice::Iter<'t, Entry>,
    /// Looks only at these.
    only: Option<&'static [&'static str]>,
    /// Were read already.
    read: Vec<&'static str>,
    what: String,
    value: Option<&'t Entry>,
}

impl<'t> Map<'t> {
    pub(super) fn new(entries: &'t [Entry], what: String) -> Self {
        Self {
            entries: entries.iter(),
            only: None,
            read: Vec::new(),
            what,
            value: None,
        }
    }

    /// Looks only at these fields.
    pub(super) fn only(mut self, known: &'static [&'static str]) -> Self {
        self.only = Some(known);
        self
    }

    /// Looks only at what is not `read` already.
    pub(super) fn without(mut self, read: Vec<&'static str>) -> Self {
        self.read = read;
        self
    }

    fn looks_at(&self, key: &str) -> bool {
        !self.read.contains(&key) && self.only.is_none_or(|only| only.contains(&key))
    }
}

impl<'t> MapAccess<'t> for Map<'t> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let entry = loop {
            match self.entries.next() {
                None => return Ok(None),
                Some(entry) if self.looks_at(&entry.key) => break entry,
                Some(_) => {}
            }
        };
        self.value = Some(entry);
        let what = self.what.split(" such as ").next().unwrap_or_default();
        let what = what.split(": ").next().unwrap_or_default();
        seed.deserialize(StrDeserializer::new(&entry.key))
            .map(Some)
            .map_err(|error: Error| error.at_key(entry.place, what, &self.read))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(entry) = self.value.take() else {
            return Err(Error::Other("a value without a name".to_owned()));
        };
        seed.deserialize(Tree::whole(&entry.value))
            .map_err(|error| error.at(&entry.value))
            .map_err(|error| error.under(|problem| problem.under_key(&label(&entry.key))))
    }
}

/// The items of a list.
pub(super) struct Items<'t> {
    pub(super) items: &'t [Node],
    pub(super) next: usize,
}

impl<'t> SeqAccess<'t> for Items<'t> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.items.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(Tree::whole(item))
            .map(Some)
            .map_err(|error| error.at(item))
            .map_err(|error| error.under(|problem| problem.under_index(index)))
    }
}

/// The two parts of a struct that share a map: first the fields that the first part knows, then the rest.
pub(super) struct Halves<'t> {
    node: &'t Node,
    known: Rc<Cell<&'static [&'static str]>>,
    first: bool,
}

impl<'t> Halves<'t> {
    pub(super) fn of(node: &'t Node) -> Self {
        Self {
            node,
            known: Rc::default(),
            first: true,
        }
    }
}

impl<'t> SeqAccess<'t> for Halves<'t> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let part = if std::mem::replace(&mut self.first, false) {
            Part::Known(Rc::clone(&self.known))
        } else {
            Part::Rest(self.known.get().to_vec(), String::new())
        };
        let node = self.node;
        seed.deserialize(Tree { node, part }).map(Some)
    }
}

/// One of several, by a word.
pub(super) struct Choice<'t> {
    /// The field that holds the word.
    pub(super) tag: Option<&'static str>,
    pub(super) word: String,
    pub(super) at: &'t Node,
    pub(super) content: Tree<'t>,
}

impl<'t> EnumAccess<'t> for Choice<'t> {
    type Error = Error;
    type Variant = Tree<'t>;

    fn variant_seed<V: DeserializeSeed<'t>>(self, seed: V) -> Result<(V::Value, Tree<'t>), Error> {
        let word: StringDeserializer<Error> = self.word.into_deserializer();
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

impl<'t> VariantAccess<'t> for Tree<'t> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'t>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        serde::Deserializer::deserialize_seq(self, visitor)
    }

    fn struct_variant<V: Visitor<'t>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.fields(String::new(), fields, visitor)
    }
}
