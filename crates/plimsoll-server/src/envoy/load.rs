//! Loads the YAML of the reference server into a tree. Collects all errors with their positions.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use plimsoll_config::ConfigError;
use plimsoll_spec::{Entry, Node, Value, parse, quote};

use super::fields::{Reader, below, get};
use super::generate;
use super::proto::{UNITS, Unit};
use super::tree::{Rate, Rule, Tree, joined, push_escaped};

/// Loads all files. A second file for a domain is an error unless `merge` is set.
pub(super) fn load(files: &[(PathBuf, String)], merge: bool) -> Result<Tree, ConfigError> {
    let mut loader = Loader {
        merge,
        ..Loader::default()
    };
    for (number, (_, text)) in files.iter().enumerate() {
        loader.reader.file = number;
        match parse(text) {
            Ok(Some(root)) => loader.root(&root),
            Ok(None) => loader.reader.wrong(
                &Node::new(plimsoll_spec::Place::START, Value::Map(Vec::new())),
                "",
                "expected `domain` and `descriptors`, found nothing",
            ),
            Err(problem) => loader.reader.problems.push(problem.in_file(number)),
        }
    }
    let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
    match ConfigError::problems(&paths, loader.reader.problems) {
        None => Ok(loader.tree),
        Some(error) => Err(error),
    }
}

#[derive(Default)]
struct Loader {
    tree: Tree,
    merge: bool,
    reader: Reader,
}

/// The parent of a descriptor.
#[derive(Clone, Copy)]
struct Parent<'a> {
    domain: &'a str,
    node: Option<usize>,
    /// The name in statistics.
    path: &'a str,
    /// The prefix of the engine names of the limits below it.
    id: &'a str,
}

impl Loader {
    fn root(&mut self, root: &Node) {
        let Some(fields) = self.reader.fields(root, "") else {
            return;
        };
        let domain = self.reader.text(fields, "domain", "");
        let Some(domain) = domain.filter(|domain| !domain.is_empty()) else {
            self.reader.wrong(
                root,
                "domain",
                "the domain is missing: expected the one that Envoy sends",
            );
            return;
        };
        if self.tree.has(&domain) && !self.merge {
            let message = format!(
                "the domain {} is described by another file already: expected one file for each domain, or that files are merged (--envoy-merge)",
                quote(&domain)
            );
            let place = get(fields, "domain").unwrap_or(root);
            self.reader.wrong(place, "domain", message);
            return;
        }
        self.tree.add_domain(&domain);
        let mut id = String::new();
        push_escaped(&mut id, &domain);
        let parent = Parent {
            domain: &domain,
            node: None,
            path: &domain,
            id: &id,
        };
        self.descriptors(fields, "", parent);
    }

    fn descriptors(&mut self, fields: &[Entry], within: &str, parent: Parent<'_>) {
        for (field, node) in self.reader.list(fields, "descriptors", within) {
            self.descriptor(node, &field, parent);
        }
    }

    fn descriptor(&mut self, node: &Node, field: &str, parent: Parent<'_>) {
        let Some(fields) = self.reader.fields(node, field) else {
            return;
        };
        let key = self.reader.text(fields, "key", field).unwrap_or_default();
        let value = self.reader.text(fields, "value", field).unwrap_or_default();
        if key.is_empty() {
            let place = get(fields, "key").unwrap_or(node);
            let message = "the key is missing: expected that of an entry which Envoy sends";
            self.reader.wrong(place, &below(field, "key"), message);
            return;
        }
        let text = joined(&key, &value);
        let path = format!("{}.{text}", parent.path);
        let mut id = format!("{}|", parent.id);
        push_escaped(&mut id, &text);
        let rule = self.rule(fields, field, (&path, &id));
        let shared = self.reader.flag(fields, "share_threshold", field);
        if shared && !text.contains('*') {
            let place = get(fields, "share_threshold").unwrap_or(node);
            let message = format!(
                "only values that a pattern fits are counted together: expected a `*` in the value, found {}",
                quote(&text)
            );
            self.reader
                .wrong(place, &below(field, "share_threshold"), message);
        }
        let value_to_metric = self.reader.flag(fields, "value_to_metric", field);
        let Some(added) = self.tree.add(parent.domain, parent.node, text) else {
            let message = format!(
                "{} is described twice: expected each key and value once beside each other, also over files that are merged",
                quote(&path)
            );
            self.reader.wrong(node, field, message);
            return;
        };
        added.shared = shared;
        added.value_to_metric = value_to_metric;
        added.rule = rule.map(Arc::new);
        let below = Parent {
            node: self.tree.last(),
            path: &path,
            id: &id,
            ..parent
        };
        self.descriptors(fields, field, below);
    }

    /// Reads the limit of a descriptor, if it has one.
    fn rule(&mut self, fields: &[Entry], within: &str, (path, id): (&str, &str)) -> Option<Rule> {
        let (shadow, quota, detailed) = (
            self.reader.flag(fields, "shadow_mode", within),
            self.reader.flag(fields, "quota_mode", within),
            self.reader.flag(fields, "detailed_metric", within),
        );
        let metadata = self.reader.metadata(fields, within);
        let node = get(fields, "rate_limit").filter(|node| !node.is_null())?;
        let field = below(within, "rate_limit");
        let limit = self.reader.fields(node, &field)?;
        let unlimited = self.reader.flag(limit, "unlimited", &field);
        let unit = self.unit(node, limit, unlimited, &field);
        let requests = self.reader.number(limit, "requests_per_unit", &field);
        let multiplier = self.reader.number(limit, "unit_multiplier", &field);
        let unit = unit.unwrap_or(Unit::Second);
        let rate = match Rate::new(requests.unwrap_or(0), unit, multiplier) {
            Ok(rate) => rate,
            Err(message) => {
                let place = get(limit, "unit_multiplier").unwrap_or(node);
                self.reader
                    .wrong(place, &below(&field, "unit_multiplier"), message);
                return None;
            }
        };
        let name = self.reader.text(limit, "name", &field).unwrap_or_default();
        let replaces = self.replaces(limit, &name, &field);
        Some(Rule {
            id: generate::id(id),
            path: path.to_owned(),
            rate,
            unlimited,
            name,
            replaces,
            shadow,
            quota,
            detailed,
            metadata,
            stats: OnceLock::new(),
        })
    }

    fn unit(
        &mut self,
        node: &Node,
        limit: &[Entry],
        unlimited: bool,
        within: &str,
    ) -> Option<Unit> {
        let field = below(within, "unit");
        let text = self.reader.text(limit, "unit", within).unwrap_or_default();
        let unit = Unit::of(&text);
        let place = get(limit, "unit").unwrap_or(node);
        match (unlimited, unit) {
            (true, Some(_)) => {
                self.reader.wrong(
                    place,
                    &field,
                    "what is unlimited has no unit: leave one of them out",
                );
                None
            }
            (true, None) => None,
            (false, Some(unit)) => Some(unit),
            (false, None) => {
                let units: Vec<String> = UNITS
                    .iter()
                    .map(|(name, _)| name.to_ascii_lowercase())
                    .collect();
                let found = if text.is_empty() {
                    "nothing".to_owned()
                } else {
                    quote(&text)
                };
                let message = format!("expected one of {}, found {found}", units.join(", "));
                self.reader.wrong(place, &field, message);
                None
            }
        }
    }

    /// Reads `replaces`: the names of limits that this limit replaces.
    fn replaces(&mut self, limit: &[Entry], own: &str, within: &str) -> Vec<String> {
        let mut names = HashSet::new();
        for (field, node) in self.reader.list(limit, "replaces", within) {
            let Some(fields) = self.reader.fields(node, &field) else {
                continue;
            };
            let name = self.reader.text(fields, "name", &field).unwrap_or_default();
            let place = get(fields, "name").unwrap_or(node);
            let field = below(&field, "name");
            if name.is_empty() {
                self.reader.wrong(
                    place,
                    &field,
                    "expected the name of another limit, found nothing",
                );
            } else if name == own {
                let message = "a limit does not replace itself: expected the name of another one";
                self.reader.wrong(place, &field, message);
            } else {
                names.insert(name);
            }
        }
        names.into_iter().collect()
    }
}
