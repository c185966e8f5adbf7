//! A serde deserialiser for a tree with the place of every value.
//!
//! Serde reads `kind: …` together with other fields (`tag`, `flatten`, `untagged`) by buffering the map, which loses
//! all places. A tree can be read twice, so that this deserialiser needs no buffer. A type selects such a form by its
//! name in serde:
//!
//! - an enum with a name in [`TAGS`] is read from a map: that field selects the variant, the other fields are its content;
//! - a struct with the name [`SPLIT`] has two parts that are read from one map: the fields of the first, then the rest;
//! - an enum with the name [`EITHER`] has a variant for a word, and one for a list or a map;
//! - a type whose name begins with [`TEXT`] is read from one text; the rest of its name is a valid text that replaces an invalid
//!   one.
//!
//! Single values are read by the functions of [`scalar`](crate::scalar), so that units and ranges are the same in all files.

mod access;
mod error;
mod names;
mod recover;
mod scalar;
mod value;

use serde::de::{DeserializeSeed, Deserializer, Expected, VariantAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use self::access::{Choice, Halves, Items, Map};
use self::error::Error;
use self::recover::Aside;
use self::value::{Part, Tree};
use crate::fields::Fields;
use crate::problem::{Problem, Read};
use crate::scalar::{Units, cost, count, expected, flag, text};
use crate::tree::{Node, Value};

pub use self::recover::{Broken, MAX_PROBLEMS, Recovered};

/// Enums that a field of the same name selects from, with the description of the map and of the value in messages.
const TAGS: [(&str, (&str, &str)); 2] = [
    ("kind", ("limiter", "a limiter: a map with a `kind`")),
    (
        "algorithm",
        ("algorithm", "an algorithm: a map with an `algorithm`"),
    ),
];
/// A struct of two parts that share a map.
const SPLIT: &str = "split";
/// A struct that names the source of a secret. Messages do not show other values in its place.
const SECRET: &str = "Secret";
/// The prefix of the name of a type that is read from one text. A valid text follows it.
const TEXT: &str = "text:";
/// An enum of a word, or a list or map.
const EITHER: &str = "either";

/// Reads a value of type `T` from `node`, and stops at the first problem. [`read`] reports all problems.
///
/// ```
/// use plimsoll_spec::{Queue, Units, document, read_one};
///
/// let queue: Queue = read_one(&document("{ bound: 10, order: lifo }", "a queue")?, Units::Required)?;
/// assert_eq!(queue.bound, 10);
/// let problem = read_one::<Queue>(&document("{ bond: 10 }", "a queue")?, Units::Required).unwrap_err();
/// assert!(problem.to_string().contains("did you mean `bound`?"), "{problem}");
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
///
/// # Errors
///
/// Returns the first problem, with its place and its path below `node`.
pub fn read_one<'t, T: Deserialize<'t>>(node: &'t Node, units: Units) -> Read<T> {
    let aside = Aside::new(units);
    T::deserialize(Tree::whole(node, &aside)).map_err(|error| error.into_problem(node).0)
}

/// Reads a value of type `T` from `root` as far as possible, and reports all problems, at most [`MAX_PROBLEMS`].
///
/// ```
/// use plimsoll_spec::{Queue, Units, document, read};
///
/// let root = document("{ bound: many, order: fivo }", "a queue")?;
/// let recovered = read::<Queue>(&root, Units::Required);
/// assert_eq!(recovered.problems.len(), 2);
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[must_use]
pub fn read<'t, T: Deserialize<'t>>(root: &'t Node, units: Units) -> Recovered<'t, T> {
    let aside = Aside::new(units);
    let mut problems = Vec::new();
    loop {
        let (problem, blame) = match T::deserialize(Tree::whole(root, &aside)) {
            Ok(value) if problems.is_empty() => {
                return Recovered {
                    value: Some(value),
                    problems,
                    broken: Broken::default(),
                };
            }
            Ok(_) => break,
            Err(error) => error.into_problem(root),
        };
        let worth_reporting = aside.put(root, blame);
        if worth_reporting.unwrap_or(true) {
            problems.push(problem);
        }
        if worth_reporting.is_none() || problems.len() >= MAX_PROBLEMS {
            break;
        }
    }
    let whole = aside.whole(root);
    Recovered {
        value: T::deserialize(Tree::whole(root, &whole)).ok(),
        problems,
        broken: Broken::of(root, &whole),
    }
}

impl<'t> Tree<'t, '_> {
    fn fields<V: Visitor<'t>>(
        self,
        what: String,
        known: &'static [&'static str],
        names: bool,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        if self.made_up && !names {
            return Err(self.cannot_make_up());
        }
        if self.made_up {
            return visitor.visit_map(Map::new(self.node, &[], what, self.aside).of_names());
        }
        let Value::Map(entries) = &self.node.value else {
            return Err(Error::Expected(what).at(self.node));
        };
        let map = |what| Map::new(self.node, entries, what, self.aside);
        let map = match self.part {
            Part::Whole if names => map(what).of_names(),
            Part::Whole => map(what),
            Part::Known(tell) => {
                tell.set(known);
                map(what).only(known)
            }
            Part::Rest(read, what) => map(what).without(read),
        };
        visitor.visit_map(map).map_err(|error| error.at(self.node))
    }

    /// An enum that is chosen by the field `tag`.
    fn tagged<V: Visitor<'t>>(
        self,
        tag: &'static str,
        (noun, what): (&str, &str),
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        if self.made_up {
            return Err(self.cannot_make_up());
        }
        let fields = Fields::any(self.node, what)?;
        let word = fields
            .required(tag, |node| {
                text(node)?;
                Ok(node)
            })
            .map_err(|problem| Error::from(problem).at(self.node))?;
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
                part: Part::Rest(read, what),
                ..Self::whole(self.node, self.aside)
            },
        };
        visitor
            .visit_enum(access)
            .map_err(|error| error.at(self.node))
    }
}

/// The expectation of a visitor, in the words of the format.
fn wanted<'t, V: Visitor<'t>>(visitor: &V) -> String {
    let wanted = (visitor as &dyn Expected).to_string();
    wanted.replace("a sequence", "a list")
}

impl<'de> Deserializer<'de> for Tree<'de, '_> {
    type Error = Error<'de>;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        match &self.node.value {
            _ if self.made_up => self.deserialize_str(visitor),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
            Value::Scalar { .. } => self.deserialize_str(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        if self.made_up {
            return visitor.visit_bool(false);
        }
        visitor.visit_bool(flag(self.node)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        if self.made_up {
            return visitor.visit_u32(1);
        }
        visitor.visit_u32(count(self.node, 0)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        if self.made_up {
            return visitor.visit_u64(1);
        }
        visitor.visit_u64(cost(self.node)?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        if self.made_up {
            return visitor.visit_string("x".to_owned());
        }
        let read: Result<_, Error<'de>> = visitor.visit_string(text(self.node)?);
        read.map_err(|error| error.at(self.node))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        self.deserialize_str(visitor)
    }

    /// A field without a value is a mistake: `queue:` with nothing after it.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        if self.made_up {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error<'de>> {
        if let Some(harmless) = name.strip_prefix(TEXT) {
            if self.made_up {
                return visitor.visit_str(harmless);
            }
            let read: Result<_, Error<'de>> = visitor.visit_string(text(self.node)?);
            return read.map_err(|error| error.at(self.node));
        }
        match scalar::reader(name) {
            Some(read) => {
                let node = (!self.made_up).then_some(self.node);
                read.visit(node, self.aside.units, visitor)
            }
            None => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        let items: &'de [Node] = match &self.node.value {
            _ if self.made_up => &[],
            Value::List(items) => items,
            _ => return Err(expected(&wanted(&visitor), self.node).into()),
        };
        visitor
            .visit_seq(Items {
                items,
                next: 0,
                aside: self.aside,
            })
            .map_err(|error| error.at(self.node))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error<'de>> {
        let what = wanted(&visitor);
        self.fields(what, &[], true, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'de>> {
        let what = wanted(&visitor);
        if name == SECRET && matches!(self.node.value, Value::Scalar { .. }) && !self.made_up {
            let message = format!("expected {what}, found a text, which may be the secret");
            return Err(Problem::new(self.node.place, message).into());
        }
        if name == SPLIT && !self.made_up {
            let read = match self.part {
                Part::Rest(read, _) => read,
                _ => Vec::new(),
            };
            return visitor
                .visit_seq(Halves::of(self.node, read, self.aside))
                .map_err(|error| error.at(self.node));
        }
        self.fields(what, fields, false, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'de>> {
        if let Some((tag, names)) = TAGS.into_iter().find(|(tag, _)| *tag == name) {
            return self.tagged(tag, names, visitor);
        }
        let word = match (name, &self.node.value) {
            _ if self.made_up => variants[0].to_owned(),
            (EITHER, Value::Scalar { .. }) => variants[0].to_owned(),
            (EITHER, _) => variants[1].to_owned(),
            _ => text(self.node)?,
        };
        let choice = Choice {
            tag: None,
            word,
            at: self.node,
            content: self.clone(),
        };
        visitor
            .visit_enum(choice)
            .map_err(|error| error.at(self.node))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

impl<'t> VariantAccess<'t> for Tree<'t, '_> {
    type Error = Error<'t>;

    fn unit_variant(self) -> Result<(), Error<'t>> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, seed: T) -> Result<T::Value, Error<'t>> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'t>>(self, _len: usize, visitor: V) -> Result<V::Value, Error<'t>> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'t>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.fields(String::new(), fields, false, visitor)
    }
}
