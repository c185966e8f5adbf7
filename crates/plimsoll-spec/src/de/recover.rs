//! Finds all mistakes of a file, not only the first.
//!
//! Serde stops at the first invalid value. So the file is read again with a valid value in its place, until nothing is
//! invalid. In the end all named entries with a mistake are left out, so that the rest can be checked as a whole without
//! follow-up errors.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ptr::from_ref;

use crate::problem::Problem;
use crate::scalar::{Units, nearest};
use crate::tree::{Entry, Node, Value};

/// The maximum number of problems that are reported. For each one the file is read again.
pub const MAX_PROBLEMS: usize = 30;

/// The cause of a problem, which is set aside for the next reading.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blame<'t> {
    /// This value.
    Value(&'t Node),
    /// An unknown field.
    Unknown(&'t Entry),
    /// A missing field of this map.
    Missing(&'t Node, &'static str),
}

/// The values that are set aside.
pub(crate) struct Aside<'t> {
    /// Whether a duration needs its unit. Stored here because every reader has this value.
    pub(crate) units: Units,
    values: RefCell<HashSet<*const Node>>,
    unknown: RefCell<HashSet<*const Entry>>,
    missing: RefCell<HashMap<*const Node, Vec<&'static str>>>,
    /// Unknown fields of a map, by their names.
    misspelt: RefCell<HashMap<*const Node, Vec<&'t str>>>,
    parents: RefCell<HashMap<*const Node, &'t Node>>,
    owners: RefCell<HashMap<*const Entry, &'t Node>>,
}

impl<'t> Aside<'t> {
    pub(crate) fn new(units: Units) -> Self {
        Self {
            units,
            values: RefCell::default(),
            unknown: RefCell::default(),
            missing: RefCell::default(),
            misspelt: RefCell::default(),
            parents: RefCell::default(),
            owners: RefCell::default(),
        }
    }

    pub(crate) fn has_value(&self, node: &Node) -> bool {
        self.values.borrow().contains(&from_ref(node))
    }

    pub(crate) fn has_entry(&self, entry: &Entry) -> bool {
        self.unknown.borrow().contains(&from_ref(entry))
    }

    pub(crate) fn missing(&self, node: &Node) -> Vec<&'static str> {
        let missing = self.missing.borrow();
        missing.get(&from_ref(node)).cloned().unwrap_or_default()
    }

    /// Sets the cause of a problem aside. Returns whether the problem should be reported; `None` if it cannot be set aside.
    pub(crate) fn put(&self, root: &'t Node, blame: Blame<'t>) -> Option<bool> {
        if self.parents.borrow().is_empty() {
            self.learn(root);
        }
        match blame {
            Blame::Unknown(entry) => {
                self.unknown.borrow_mut().insert(from_ref(entry));
                if let Some(owner) = self.owners.borrow().get(&from_ref(entry)) {
                    let mut misspelt = self.misspelt.borrow_mut();
                    let fields = misspelt.entry(from_ref(*owner)).or_default();
                    fields.push(&entry.key);
                }
                Some(true)
            }
            Blame::Missing(node, field) => {
                let mut missing = self.missing.borrow_mut();
                let fields = missing.entry(from_ref(node)).or_default();
                if fields.contains(&field) {
                    drop(missing);
                    return self.put_around(root, node);
                }
                fields.push(field);
                // The misspelt field is reported already.
                let misspelt = self.misspelt.borrow();
                let written = misspelt.get(&from_ref(node)).into_iter().flatten();
                let meant =
                    |word: &&str| nearest(word, [field].into_iter()).contains("did you mean");
                Some(!written.copied().any(|word| meant(&word)))
            }
            Blame::Value(node) if self.has_value(node) => self.put_around(root, node),
            Blame::Value(node) if std::ptr::eq(node, root) => None,
            Blame::Value(node) => {
                self.values.borrow_mut().insert(from_ref(node));
                Some(true)
            }
        }
    }

    /// Sets the value around this one aside, because there is no valid value to replace it.
    fn put_around(&self, root: &'t Node, node: &'t Node) -> Option<bool> {
        let around = self.parents.borrow().get(&from_ref(node)).copied()?;
        if std::ptr::eq(around, root) {
            return None;
        }
        self.put(root, Blame::Value(around)).map(|_| false)
    }

    fn learn(&self, root: &'t Node) {
        let (mut parents, mut owners) = (self.parents.borrow_mut(), self.owners.borrow_mut());
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            match &node.value {
                Value::Scalar { .. } => {}
                Value::List(items) => {
                    for item in items {
                        parents.insert(from_ref(item), node);
                        open.push(item);
                    }
                }
                Value::Map(entries) => {
                    for entry in entries {
                        owners.insert(from_ref(entry), node);
                        parents.insert(from_ref(&entry.value), node);
                        open.push(&entry.value);
                    }
                }
            }
        }
    }

    /// Leaves out all entries and items of sections that have a mistake.
    pub(crate) fn whole(&self, root: &'t Node) -> Self {
        let parents = self.parents.borrow();
        let owners = self.owners.borrow();
        let mut wrong: Vec<*const Node> = self.values.borrow().iter().copied().collect();
        wrong.extend(self.missing.borrow().keys());
        for entry in self.unknown.borrow().iter() {
            wrong.extend(owners.get(entry).map(|owner| from_ref(*owner)));
        }
        let whole = Self::new(self.units);
        for mut node in wrong {
            // Up to an entry of a section: the parent of its parent is the root.
            while let Some(parent) = parents.get(&node) {
                let is_section = std::ptr::eq(*parent, root);
                let in_section = parents
                    .get(&from_ref(*parent))
                    .is_some_and(|section| std::ptr::eq(*section, root));
                if is_section || in_section {
                    break;
                }
                node = from_ref(*parent);
            }
            if !std::ptr::eq(node, root) {
                whole.values.borrow_mut().insert(node);
            }
        }
        *whole.unknown.borrow_mut() = self.unknown.borrow().clone();
        *whole.missing.borrow_mut() = HashMap::new();
        whole
    }
}

/// The result of [`read`](crate::read): the valid parts of a file, and its problems.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered<'t, T> {
    /// The value, without entries that have mistakes. `None` if no valid value is left.
    pub value: Option<T>,
    /// All problems, at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// The entries that were left out.
    pub broken: Broken<'t>,
}

/// The entries that [`read`](crate::read) left out because of mistakes. Other entries may refer to them by name, so a
/// check of the whole file calls [`has`](Self::has) before it reports an unknown name.
#[derive(Default, Debug)]
pub struct Broken<'t> {
    names: BTreeSet<&'t str>,
    /// The items of lists that were left out.
    items: HashSet<(&'t str, usize)>,
    /// Whether the names are unknown, because a whole section could not be read.
    any_name: bool,
}

impl<'t> Broken<'t> {
    /// The entries that are left out of the sections of `root`.
    pub(crate) fn of(root: &'t Node, aside: &Aside<'t>) -> Self {
        let mut broken = Self::default();
        let Value::Map(sections) = &root.value else {
            return broken;
        };
        for section in sections {
            broken.any_name |= aside.has_entry(section) || aside.has_value(&section.value);
            match &section.value.value {
                Value::Map(named) => {
                    let wrong = named.iter().filter(|entry| aside.has_value(&entry.value));
                    broken.names.extend(wrong.map(|entry| entry.key.as_str()));
                }
                Value::List(items) => {
                    let items = items.iter().enumerate();
                    let wrong = items.filter(|(_, item)| aside.has_value(item));
                    let key = section.key.as_str();
                    broken.items.extend(wrong.map(|(at, _)| (key, at)));
                }
                Value::Scalar { .. } => {}
            }
        }
        broken
    }

    /// Returns whether an entry of this name may have been left out. True for every name if a whole section could not
    /// be read.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.any_name || self.names.contains(name)
    }

    /// Returns the names of the entries that were left out.
    pub fn names(&self) -> impl Iterator<Item = &'t str> {
        self.names.iter().copied()
    }

    /// Returns the indices of the items of a list that were not left out.
    pub fn places(&self, section: &'static str) -> impl Iterator<Item = usize> {
        (0..).filter(move |at| !self.items.contains(&(section, *at)))
    }
}
