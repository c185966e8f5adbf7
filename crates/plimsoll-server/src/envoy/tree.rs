//! The configured descriptors as a tree, and the lookup of a request's descriptor in it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use plimsoll_tower::keys::{MAX_LEN, bounded};
use smallvec::SmallVec;

use super::glob;
use super::metadata::Map;
use super::proto::{Entry, Unit};
use super::stats::LimitStats;

/// The descriptors of all domains.
#[derive(Debug, Default)]
pub(super) struct Tree {
    domains: HashMap<String, Level>,
    nodes: Vec<Node>,
}

/// Sibling descriptors.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// Nodes by key, or by key and value, as [`joined`].
    exact: HashMap<String, usize>,
    /// Nodes with a `*`, in the order of the file.
    wild: Vec<usize>,
}

/// A configured descriptor.
#[derive(Debug)]
pub(super) struct Node {
    /// The key, or key and value, as [`joined`].
    pub(super) text: String,
    /// Whether all values that match a pattern share a counter.
    pub(super) shared: bool,
    pub(super) value_to_metric: bool,
    pub(super) rule: Option<Arc<Rule>>,
    below: Level,
}

/// A limit.
#[derive(Debug)]
pub(super) struct Rule {
    /// The name of the engine limit.
    pub(super) id: String,
    /// The name in statistics: the domain and the descriptors.
    pub(super) path: String,
    pub(super) rate: Rate,
    pub(super) unlimited: bool,
    pub(super) name: String,
    pub(super) replaces: Vec<String>,
    pub(super) shadow: bool,
    pub(super) quota: bool,
    pub(super) detailed: bool,
    pub(super) metadata: Option<Map>,
    /// The statistics of its path, resolved at first use.
    pub(super) stats: OnceLock<Arc<LimitStats>>,
}

/// A number of requests for each window of `multiplier` units.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Rate {
    pub(super) limit: u32,
    pub(super) unit: Unit,
    /// 1, except for overrides.
    pub(super) multiplier: u32,
}

/// Maximum window: a hundred years.
const LONGEST_WINDOW: u64 = 100 * Unit::Year.seconds();

impl Rate {
    /// `limit` requests for each window of `multiplier` units; 1 if `None`.
    ///
    /// # Errors
    ///
    /// If the multiplier is invalid.
    pub(super) fn new(limit: u32, unit: Unit, multiplier: Option<u32>) -> Result<Self, String> {
        let rate = Self {
            limit,
            unit,
            multiplier: multiplier.unwrap_or(1),
        };
        if rate.multiplier == 0 || rate.window() > LONGEST_WINDOW {
            return Err(format!(
                "expected a multiplier of 1 or more, and a window of at most a hundred years, found {} of {}",
                rate.multiplier,
                unit.name()
            ));
        }
        Ok(rate)
    }

    /// The length of a window, in seconds.
    pub(super) const fn window(self) -> u64 {
        self.unit.seconds() * self.multiplier as u64
    }
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum Found {
    /// The domain is not configured.
    NoDomain,
    /// No limit matches.
    Nothing,
    Limit(Match),
}

/// The limit that matches a descriptor of a request.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) rule: Arc<Rule>,
    /// The key of the counter.
    pub(super) key: String,
    /// The name in statistics, if it differs from the path of the rule.
    pub(super) stat: Option<String>,
}

#[cfg(test)]
impl Match {
    /// The name in statistics.
    pub(super) fn stat(&self) -> &str {
        self.stat.as_deref().unwrap_or(&self.rule.path)
    }
}

/// The key and value in the form of lookups. As in the reference server, `a` with `b_c` equals `a_b` with `c`.
pub(super) fn joined(key: &str, value: &str) -> String {
    if value.is_empty() {
        return key.to_owned();
    }
    format!("{key}_{value}")
}

impl Tree {
    /// Whether the domain is configured.
    pub(super) fn has(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    pub(super) fn add_domain(&mut self, domain: &str) {
        self.domains.entry(domain.to_owned()).or_default();
    }

    pub(super) fn domain_count(&self) -> usize {
        self.domains.len()
    }

    /// The top-level descriptors of a domain, or the children of a node.
    fn level(&mut self, domain: &str, parent: Option<usize>) -> Option<&mut Level> {
        match parent {
            None => self.domains.get_mut(domain),
            Some(parent) => self.nodes.get_mut(parent).map(|node| &mut node.below),
        }
    }

    /// Adds a descriptor. `None` if a sibling has the same text.
    pub(super) fn add(
        &mut self,
        domain: &str,
        parent: Option<usize>,
        text: String,
    ) -> Option<&mut Node> {
        let number = self.nodes.len();
        let level = self.level(domain, parent)?;
        if level.exact.contains_key(&text) {
            return None;
        }
        level.exact.insert(text.clone(), number);
        if text.contains('*') {
            level.wild.push(number);
        }
        self.nodes.push(Node {
            text,
            shared: false,
            value_to_metric: false,
            rule: None,
            below: Level::default(),
        });
        self.nodes.last_mut()
    }

    /// The index of the last node.
    pub(super) fn last(&self) -> Option<usize> {
        self.nodes.len().checked_sub(1)
    }

    /// All limits, in the order of the files.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.nodes.iter().filter_map(|node| node.rule.as_ref())
    }

    /// Looks up the limit for a descriptor: descends one level for each entry, without backtracking, and takes the limit of the last
    /// node.
    pub(super) fn find(&self, domain: &str, entries: &[Entry]) -> Found {
        let Some(mut level) = self.domains.get(domain) else {
            return Found::NoDomain;
        };
        let mut text = String::new();
        let mut steps = Steps::new();
        for entry in entries {
            let Some(step) = self.step(level, entry, &mut text) else {
                return Found::Nothing;
            };
            level = &step.node.below;
            steps.push(step);
        }
        let rule = steps.last().and_then(|step| step.node.rule.clone());
        let Some(rule) = rule else {
            return Found::Nothing;
        };
        let stat = match rule.detailed {
            true => Some(detailed_stat(domain, &steps)),
            false if steps.iter().all(Step::is_named_by_path) => None,
            false => Some(stat(domain, &steps)),
        };
        Found::Limit(Match {
            key: counter(&steps),
            stat,
            rule,
        })
    }

    /// Descends one level: tries key and value, then patterns in the order of the file, then the key alone.
    fn step<'t>(
        &'t self,
        level: &'t Level,
        entry: &'t Entry,
        text: &mut String,
    ) -> Option<Step<'t>> {
        text.clear();
        text.reserve(entry.key.len() + 1 + entry.value.len());
        text.push_str(&entry.key);
        text.push('_');
        text.push_str(&entry.value);
        let step = |at: &usize, by| {
            let node = &self.nodes[*at];
            Step { node, entry, by }
        };
        if let Some(at) = level.exact.get(text.as_str()) {
            return Some(step(at, By::Value));
        }
        let fits = |at: &&usize| glob::matches(&self.nodes[**at].text, text);
        if let Some(at) = level.wild.iter().find(fits) {
            return Some(step(at, By::Pattern));
        }
        let at = level.exact.get(&entry.key)?;
        Some(step(at, By::Key))
    }
}

/// The way in which an entry matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Value,
    Pattern,
    Key,
}

/// An entry of a request, and the node that it matched.
struct Step<'t> {
    node: &'t Node,
    entry: &'t Entry,
    by: By,
}

/// The matched nodes of a descriptor, from the top level down.
type Steps<'t> = SmallVec<[Step<'t>; 4]>;

impl Step<'_> {
    /// Whether [`stat`] names the entry as the path of the rule does.
    fn is_named_by_path(&self) -> bool {
        match self.by {
            By::Value => !self.entry.value.is_empty(),
            By::Key => !self.node.value_to_metric,
            By::Pattern => {
                let below = self.node.text.strip_prefix(self.entry.key.as_str());
                let pattern = below.and_then(|it| it.strip_prefix('_'));
                let named = self.node.shared || !self.node.value_to_metric;
                named && pattern.is_some_and(|pattern| !pattern.is_empty())
            }
        }
    }

    /// The pattern that matched, if all values that match it share a counter.
    fn shared(&self) -> Option<&str> {
        (self.by == By::Pattern && self.node.shared).then(|| self.pattern())
    }

    /// The part of the pattern that matches the value.
    fn pattern(&self) -> &str {
        let value = self.node.text.strip_prefix(self.entry.key.as_str());
        let value = value.and_then(|value| value.strip_prefix('_'));
        value.unwrap_or(&self.node.text)
    }
}

/// The key of a counter: the entries whose values the configuration does not fix.
fn counter(steps: &[Step<'_>]) -> String {
    let length = |step: &Step<'_>| step.entry.key.len() + step.entry.value.len() + 2;
    let mut key = String::with_capacity(steps.iter().map(length).sum());
    for step in steps {
        let varies = step.by != By::Value && step.shared().is_none();
        if varies {
            push_escaped(&mut key, &step.entry.key);
            key.push('=');
            push_escaped(&mut key, &step.entry.value);
            key.push('|');
        }
    }
    key.pop();
    bounded(key.into(), MAX_LEN).into_owned()
}

/// Appends a part, escaped so that different lists of parts have different texts.
pub(super) fn push_escaped(to: &mut String, part: &str) {
    if !part.contains(['|', '=', '\\']) {
        to.push_str(part);
        return;
    }
    for letter in part.chars() {
        if matches!(letter, '|' | '=' | '\\') {
            to.push('\\');
        }
        to.push(letter);
    }
}

/// The name of a limit in statistics, unless its descriptor sets `detailed_metric`.
fn stat(domain: &str, steps: &[Step<'_>]) -> String {
    let mut stat = domain.to_owned();
    for step in steps {
        let Entry { key, value } = step.entry;
        stat.push('.');
        match (step.by, step.shared()) {
            (By::Pattern, Some(pattern)) => push(&mut stat, key, pattern),
            (By::Pattern, None) if !step.node.value_to_metric => {
                push(&mut stat, key, step.pattern());
            }
            (By::Key, _) if !step.node.value_to_metric => stat.push_str(key),
            _ => push(&mut stat, key, value),
        }
    }
    stat
}

/// The name of a limit in statistics with all values.
fn detailed_stat(domain: &str, steps: &[Step<'_>]) -> String {
    let any_shared = steps.iter().any(|step| step.shared().is_some());
    let mut stat = domain.to_owned();
    for step in steps {
        let Entry { key, value } = step.entry;
        stat.push('.');
        match step.shared() {
            Some(pattern) => push(&mut stat, key, pattern),
            None if any_shared => push(&mut stat, key, value),
            None => {
                stat.push_str(key);
                stat.push('_');
                stat.push_str(value);
            }
        }
    }
    stat
}

/// The name of an override in statistics.
pub(super) fn override_stat(domain: &str, entries: &[Entry]) -> String {
    let mut stat = domain.to_owned();
    for entry in entries {
        stat.push('.');
        push(&mut stat, &entry.key, &entry.value);
    }
    stat
}

/// The key of the counter of an override.
pub(super) fn override_key(domain: &str, entries: &[Entry]) -> String {
    let mut key = String::new();
    push_escaped(&mut key, domain);
    for entry in entries {
        key.push('|');
        push_escaped(&mut key, &entry.key);
        key.push('=');
        push_escaped(&mut key, &entry.value);
    }
    bounded(key.into(), MAX_LEN).into_owned()
}

fn push(stat: &mut String, key: &str, value: &str) {
    stat.push_str(key);
    if !value.is_empty() {
        stat.push('_');
        stat.push_str(value);
    }
}
