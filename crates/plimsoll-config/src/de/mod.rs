//! Fills types by serde from a tree that knows the place of every value.
//!
//! Serde's own way to read `kind: …` beside other fields (`tag`, `flatten`, `untagged`) is to keep the whole map aside and
//! to read it again later, when nobody knows any more where anything stood. A tree can be looked at twice. So these are
//! done here, and types say which they want by the name they have in serde:
//!
//! - an enum called by a field, [`TAGS`], is read from a map by the word in that field, and its variants from the rest;
//! - a struct called [`SPLIT`] has two parts that are read from the same map: the fields of the first, then the rest;
//! - an enum called [`EITHER`] has a variant for a word, and one for a list or a map.
//!
//! Single values are read by the functions with which scenarios are read, so units and ranges are the same there.

mod access;
mod error;
mod scalar;

use std::cell::Cell;
use std::rc::Rc;

use plimsoll_scenario::reader::scalar::{expected, text};
use plimsoll_scenario::reader::{Fields, Node, Read, Value};
use serde::de::{Deserializer, Expected, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use access::{Choice, Halves, Items, Map};
pub(crate) use error::Error;
pub(crate) use scalar::{bytes, is_name};

/// Enums that a field of the same name chooses from, and what the map around it is called.
const TAGS: [(&str, &str); 2] = [("kind", "limiter"), ("algorithm", "algorithm")];
/// A struct of two parts that share a map.
const SPLIT: &str = "split";
/// An enum of a word, or something larger.
const EITHER: &str = "either";

/// Reads a value of type `T` from `root`.
pub(crate) fn read<'t, T: Deserialize<'t>>(root: &'t Node) -> Read<T> {
    T::deserialize(Tree::whole(root)).map_err(|error| error.into_problem(root))
}

/// A value, or what is left of it.
#[derive(Clone)]
struct Tree<'t> {
    node: &'t Node,
    part: Part,
}

/// Which fields of a map are looked at.
#[derive(Clone)]
enum Part {
    /// All.
    Whole,
    /// Those that the type knows; it tells which they were.
    Known(Rc<Cell<&'static [&'static str]>>),
    /// All but these. The text names the map.
    Rest(Vec<&'static str>, String),
}

impl<'t> Tree<'t> {
    const fn whole(node: &'t Node) -> Self {
        let part = Part::Whole;
        Self { node, part }
    }

    fn fields<V: Visitor<'t>>(
        self,
        what: String,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Value::Map(entries) = &self.node.value else {
            return Err(Error::Expected(what).at(self.node));
        };
        let map = match self.part {
            Part::Whole => Map::new(entries, what),
            Part::Known(tell) => {
                tell.set(known);
                Map::new(entries, what).only(known)
            }
            Part::Rest(read, what) => Map::new(entries, what).without(read),
        };
        visitor.visit_map(map).map_err(|error| error.at(self.node))
    }

    /// An enum that is chosen by the field `tag`.
    fn tagged<V: Visitor<'t>>(
        self,
        tag: &'static str,
        noun: &str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let what = format!("a {noun}: a map with a `{tag}`");
        let what = what.replace("a algorithm", "an algorithm");
        let fields = Fields::any(self.node, &what)?;
        let word = fields.required(tag, |node| {
            text(node)?;
            Ok(node)
        })?;
        let mut read = match self.part {
            Part::Rest(read, _) => read,
            _ => Vec::new(),
        };
        read.push(tag);
        let what = format!("the {noun} `{}`", text(word)?);
        let access = Choice {
            tag: Some(tag),
            word: text(word)?,
            at: word,
            content: Self {
                node: self.node,
                part: Part::Rest(read, what),
            },
        };
        visitor
            .visit_enum(access)
            .map_err(|error| error.at(self.node))
    }
}

/// What a visitor says it wants, in the words of the format.
fn wanted<'t, V: Visitor<'t>>(visitor: &V) -> String {
    let wanted = (visitor as &dyn Expected).to_string();
    wanted.replace("a sequence", "a list")
}

impl<'de> Deserializer<'de> for Tree<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
            Value::Scalar { .. } => self.deserialize_str(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(plimsoll_scenario::reader::scalar::flag(self.node)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u32(plimsoll_scenario::reader::scalar::count(self.node)?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read: Result<_, Error> = visitor.visit_string(text(self.node)?);
        read.map_err(|error| error.at(self.node))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    /// A field that is there has a value: `queue:` with nothing after it is a mistake.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match scalar::reader(name) {
            Some(read) => read.visit(self.node, visitor),
            None => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::List(items) = &self.node.value else {
            return Err(expected(&wanted(&visitor), self.node).into());
        };
        visitor
            .visit_seq(Items { items, next: 0 })
            .map_err(|error| error.at(self.node))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let what = wanted(&visitor);
        self.fields(what, &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let what = wanted(&visitor);
        if name == SPLIT {
            return visitor
                .visit_seq(Halves::of(self.node))
                .map_err(|error| error.at(self.node));
        }
        self.fields(what, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some((tag, noun)) = TAGS.into_iter().find(|(tag, _)| *tag == name) {
            return self.tagged(tag, noun, visitor);
        }
        let word = match (name, &self.node.value) {
            (EITHER, Value::Scalar { .. }) => variants[0].to_owned(),
            (EITHER, _) => variants[1].to_owned(),
            _ => text(self.node)?,
        };
        let choice = Choice {
            tag: None,
            word,
            at: self.node,
            content: Self::whole(self.node),
        };
        visitor
            .visit_enum(choice)
            .map_err(|error| error.at(self.node))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}
