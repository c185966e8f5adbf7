//! Finds routes that no request reaches, because an earlier route matches all of their requests.

use std::collections::HashMap;

use plimsoll_spec::{Step, below};

use super::Context;
use crate::route::{HeaderMatch, Pattern, RouteSpec, Segment};

/// The largest number of routes that one route is compared with. The result is only reported, so it may be incomplete.
const MOST_COMPARED: usize = 1000;

/// The routes so far, by the segments of their patterns, so that each is compared only with those that may match the same.
#[derive(Default)]
pub(super) struct Shadowed {
    nodes: Vec<Node>,
    conditions: Vec<Conditions>,
}

#[derive(Default)]
struct Node {
    is: HashMap<String, usize>,
    any: Option<usize>,
    /// Routes whose pattern ends here, and whether `**` follows.
    ends: Vec<(usize, bool)>,
}

/// The conditions of a route other than its path.
struct Conditions {
    /// The position of the route in the file.
    index: usize,
    spec: RouteSpec,
}

impl Shadowed {
    /// Adds a route. Returns the earlier route that matches all of its requests, if there is one.
    pub(super) fn add(
        &mut self,
        spec: &RouteSpec,
        index: usize,
        path: &[Step<'_>],
        context: &Context<'_>,
    ) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let several = spec.patterns.len() > 1;
        for (at, pattern) in spec.patterns.iter().enumerate() {
            let Some(first) = self.covering(pattern, spec) else {
                continue;
            };
            let mut path = below(path, Step::Key("match"));
            if several {
                path.push(Step::Index(at));
            }
            let Conditions { index, spec: other } = &self.conditions[first];
            let same = other.patterns.contains(pattern) && same_conditions(other, spec);
            let message = match same {
                true => format!("this is matched before, by routes[{index}]"),
                false => {
                    format!("no request comes here: routes[{index}] matches all of them before")
                }
            };
            let problem = context.places.value(&path, message);
            match same {
                true => context.note(problem),
                false => context.warn(problem),
            }
        }
        let id = self.conditions.len();
        self.conditions.push(Conditions {
            index,
            spec: spec.clone(),
        });
        for pattern in &spec.patterns {
            self.insert(pattern, id);
        }
    }

    fn insert(&mut self, pattern: &Pattern, id: usize) {
        let mut at = 0;
        for segment in pattern.segments() {
            let new = self.nodes.len();
            let next = match segment {
                Segment::Is(text) => *self.nodes[at].is.entry(text.clone()).or_insert(new),
                Segment::Any => *self.nodes[at].any.get_or_insert(new),
            };
            if next == new {
                self.nodes.push(Node::default());
            }
            at = next;
        }
        self.nodes[at].ends.push((id, pattern.is_open()));
    }

    /// The first route that matches everything that `pattern` of `spec` does.
    fn covering(&self, pattern: &Pattern, spec: &RouteSpec) -> Option<usize> {
        let mut compared = 0;
        let mut found: Option<usize> = None;
        let mut open = vec![(0, 0)];
        while let Some((at, depth)) = open.pop() {
            let node = &self.nodes[at];
            let last = depth == pattern.segments().len();
            for (id, is_open) in &node.ends {
                compared += 1;
                let paths = *is_open || last && !pattern.is_open();
                if paths
                    && found.is_none_or(|found| *id < found)
                    && covers(&self.conditions[*id].spec, spec)
                {
                    found = Some(*id);
                }
            }
            if compared > MOST_COMPARED {
                break;
            }
            compared += 1;
            let Some(segment) = pattern.segments().get(depth) else {
                continue;
            };
            if let Segment::Is(text) = segment {
                open.extend(node.is.get(text).map(|next| (*next, depth + 1)));
            }
            let some = !matches!(segment, Segment::Is(text) if text.is_empty());
            open.extend(node.any.filter(|_| some).map(|next| (next, depth + 1)));
        }
        found
    }
}

/// Whether `one` matches every request, of the same path, that `other` matches.
fn covers(one: &RouteSpec, other: &RouteSpec) -> bool {
    let methods = one.methods.is_empty()
        || !other.methods.is_empty() && other.methods.iter().all(|it| one.methods.contains(it));
    let host = |it| one.hosts.iter().any(|host| host.covers(it));
    let hosts = one.hosts.is_empty() || !other.hosts.is_empty() && other.hosts.iter().all(host);
    let header = |(name, wanted): &(String, HeaderMatch)| {
        let same = |(other, is): &(String, HeaderMatch)| {
            other == name && (is == wanted || *wanted == HeaderMatch::Present)
        };
        other.headers.iter().any(same)
    };
    methods && hosts && one.headers.iter().all(header)
}

fn same_conditions(one: &RouteSpec, other: &RouteSpec) -> bool {
    covers(one, other) && covers(other, one)
}
