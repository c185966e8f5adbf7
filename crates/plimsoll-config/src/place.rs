//! Where in a file something stands, for problems that show only when all of it has been read.

use plimsoll_scenario::reader::{Node, Place, Problem, Value, label};

/// One step of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// A path to a value.
pub(crate) type Path<'a> = Vec<Step<'a>>;

/// `path` and one step more.
pub(crate) fn below<'a>(path: &[Step<'a>], step: Step<'a>) -> Path<'a> {
    [path, &[step]].concat()
}

/// The path of a field of a field.
pub(crate) fn keys<'a>(keys: &[&'a str]) -> Path<'a> {
    keys.iter().copied().map(Step::Key).collect()
}

/// A file whose places can be looked up.
#[derive(Clone, Copy)]
pub(crate) struct Places<'t> {
    pub(crate) root: &'t Node,
}

impl Places<'_> {
    /// A problem of the value at `path`.
    pub(crate) fn value(self, path: &[Step<'_>], message: impl Into<String>) -> Problem {
        Self::problem(self.find(path).1, path, message)
    }

    /// A problem of the name at the end of `path`.
    pub(crate) fn name(self, path: &[Step<'_>], message: impl Into<String>) -> Problem {
        Self::problem(self.find(path).0, path, message)
    }

    /// Whether there is something at `path`.
    pub(crate) fn has(self, path: &[Step<'_>]) -> bool {
        self.walk(path).len() == path.len() + 1
    }

    fn problem(place: Place, path: &[Step<'_>], message: impl Into<String>) -> Problem {
        let problem = Problem::new(place, message);
        path.iter().rev().fold(problem, |problem, step| match step {
            Step::Key(key) => problem.under_key(&label(key)),
            Step::Index(index) => problem.under_index(*index),
        })
    }

    /// The places of the name and of the value at `path`, or of the last that is there.
    pub(crate) fn find(self, path: &[Step<'_>]) -> (Place, Place) {
        let last = self.walk(path).pop();
        last.unwrap_or((self.root.place, self.root.place))
    }

    fn walk(self, path: &[Step<'_>]) -> Vec<(Place, Place)> {
        let mut node = self.root;
        let mut places = vec![(node.place, node.place)];
        for step in path {
            let next = match (step, &node.value) {
                (Step::Key(key), Value::Map(entries)) => entries
                    .iter()
                    .find(|entry| entry.key == *key)
                    .map(|entry| (entry.place, &entry.value)),
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
