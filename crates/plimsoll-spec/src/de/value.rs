//! A value that is being deserialised, its place, and the fields that are read.

use std::cell::Cell;
use std::rc::Rc;

use super::error::Error;
use super::recover::Aside;
use crate::tree::Node;

/// A value that is deserialised, without the parts that were set aside.
#[derive(Clone)]
pub(super) struct Tree<'t, 'a> {
    pub(super) node: &'t Node,
    pub(super) part: Part,
    pub(super) aside: &'a Aside<'t>,
    /// Whether a valid value replaces it.
    pub(super) made_up: bool,
}

/// The fields of a map that are read.
#[derive(Clone)]
pub(super) enum Part {
    /// All.
    Whole,
    /// The fields that the type has, which are recorded.
    Known(Rc<Cell<&'static [&'static str]>>),
    /// All but these. The text describes the map.
    Rest(Vec<&'static str>, String),
}

impl<'t, 'a> Tree<'t, 'a> {
    pub(super) fn whole(node: &'t Node, aside: &'a Aside<'t>) -> Self {
        Self {
            node,
            part: Part::Whole,
            aside,
            made_up: aside.has_value(node),
        }
    }

    /// The value of a missing field of `node`.
    pub(super) const fn made_up(node: &'t Node, aside: &'a Aside<'t>) -> Self {
        Self {
            node,
            part: Part::Whole,
            aside,
            made_up: true,
        }
    }

    /// The error for a type without a valid value to put in place of an invalid one.
    pub(super) fn cannot_make_up(&self) -> Error<'t> {
        Error::Other("nothing can be made up".to_owned()).at(self.node)
    }
}
