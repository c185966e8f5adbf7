//! Paths to values in a file, for problems that are found only after all of it has been read.

use std::collections::HashMap;

use crate::place::Place;
use crate::problem::{Problem, label};
use crate::tree::{Entry, Node, Value};

/// One step of a path to a value in a file. The enum is exhaustive: maps and lists are the only values with values in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// To a field of a map.
    Key(&'a str),
    /// To an item of a list.
    Index(usize),
}

/// A path to a value in a file, from its root.
pub type Path<'a> = Vec<Step<'a>>;

/// Returns `path` with one more step.
#[must_use]
pub fn below<'a>(path: &[Step<'a>], step: Step<'a>) -> Path<'a> {
    [path, &[step]].concat()
}

/// Returns the path through these fields, each a field of the one before.
#[must_use]
pub fn keys<'a>(keys: &[&'a str]) -> Path<'a> {
    keys.iter().copied().map(Step::Key).collect()
}

/// Looks up the places of values by their paths, for problems that are found after the file was read.
///
/// ```
/// use plimsoll_spec::{Places, Step, below, document, keys};
///
/// let root = document("limits:\n  api: { of: [a, b] }\n", "limits")?;
/// let places = Places::of(&root);
/// let path = below(&keys(&["limits", "api", "of"]), Step::Index(1));
/// let problem = places.value(&path, "there is no limit of this name");
/// assert_eq!(problem.to_string(), "2:18: limits.api.of[1]: there is no limit of this name");
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Debug)]
pub struct Places<'t> {
    root: &'t Node,
    /// The entries of sections by name, because there may be very many.
    named: HashMap<(&'t str, &'t str), &'t Entry>,
}

impl<'t> Places<'t> {
    /// Indexes the places of the file that was read into `root`.
    #[must_use]
    pub fn of(root: &'t Node) -> Self {
        let sections = entries(root).iter();
        let named = sections.flat_map(|section| {
            let named = entries(&section.value).iter();
            named.map(|entry| ((section.key.as_str(), entry.key.as_str()), entry))
        });
        Self {
            root,
            named: named.collect(),
        }
    }

    /// Returns a problem at the value at `path`. If the file does not have it, the place is that of the last step that
    /// the file has.
    #[must_use]
    pub fn value(&self, path: &[Step<'_>], message: impl Into<String>) -> Problem {
        Self::problem(self.find(path).1, path, message)
    }

    /// Returns a problem at the name of the field at `path`.
    #[must_use]
    pub fn name(&self, path: &[Step<'_>], message: impl Into<String>) -> Problem {
        Self::problem(self.find(path).0, path, message)
    }

    /// Returns whether the file has a value at `path`.
    #[must_use]
    pub fn has(&self, path: &[Step<'_>]) -> bool {
        self.walk(path).len() == path.len() + 1
    }

    fn problem(place: Place, path: &[Step<'_>], message: impl Into<String>) -> Problem {
        let problem = Problem::new(place, message);
        path.iter().rev().fold(problem, |problem, step| match step {
            Step::Key(key) => problem.under_key(&label(key)),
            Step::Index(index) => problem.under_index(*index),
        })
    }

    /// Returns the places of the name and of the value at `path`, or of the last step that the file has.
    #[must_use]
    pub fn find(&self, path: &[Step<'_>]) -> (Place, Place) {
        let last = self.walk(path).pop();
        last.unwrap_or((self.root.place, self.root.place))
    }

    fn walk(&self, path: &[Step<'_>]) -> Vec<(Place, Place)> {
        let mut node = self.root;
        let mut places = vec![(node.place, node.place)];
        for (depth, step) in path.iter().enumerate() {
            let next = match (step, &node.value) {
                (Step::Key(key), Value::Map(entries)) => {
                    let entry = match path.first() {
                        Some(Step::Key(section)) if depth == 1 => {
                            self.named.get(&(*section, *key)).copied()
                        }
                        _ => entries.iter().find(|entry| entry.key == *key),
                    };
                    entry.map(|entry| (entry.place, &entry.value))
                }
                (Step::Index(index), Value::List(items)) => {
                    items.get(*index).map(|item| (item.place, item))
                }
                _ => None,
            };
            let Some((name, value)) = next else { break };
            places.push((name, value.place));
            node = value;
        }
        places
    }
}

fn entries(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}
