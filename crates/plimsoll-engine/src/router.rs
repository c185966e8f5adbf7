//! Finds the route of a request: the first route of the file that matches, by a tree of path segments.

use std::collections::HashMap;

use plimsoll::KeyHash;
use plimsoll_config::{Pattern, Segment};

/// A tree of the segments of path patterns. If several patterns match, the first route of the file counts.
#[derive(Debug, Default)]
pub(crate) struct Router {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    literals: Literals,
    /// `*`: one segment that is not empty.
    any: Option<Box<Self>>,
    /// Routes that end here.
    ends: Routes,
    /// Routes with `**` from here on.
    open: Routes,
}

/// Routes with the same path, in the order of the file.
#[derive(Debug)]
struct Routes {
    /// [`NONE`] if there are none.
    first: usize,
    others: Vec<usize>,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            first: NONE,
            others: Vec::new(),
        }
    }
}

impl Routes {
    fn push(&mut self, route: usize) {
        match self.first {
            NONE => self.first = route,
            _ => self.others.push(route),
        }
    }

    /// The first of these routes that fits, if it comes before `best`; otherwise `best`.
    #[inline(always)]
    fn first(&self, fits: &impl Fn(usize) -> bool, best: usize) -> usize {
        match self.first < best {
            false => best,
            true if fits(self.first) => self.first,
            true => self.other(fits, best),
        }
    }

    #[inline(never)]
    fn other(&self, fits: &impl Fn(usize) -> bool, best: usize) -> usize {
        let mut better = self.others.iter().copied();
        let better = better.find(|route| *route >= best || fits(*route));
        better.map_or(best, |route| route.min(best))
    }
}

/// Up to this many segments are compared one by one; more are hashed. Lower in tests, so that small trees use both.
const FEW: usize = if cfg!(test) { 2 } else { 8 };

/// Nodes by the bytes of their segments.
#[derive(Debug, Default)]
struct Literals {
    few: Vec<(Box<[u8]>, Node)>,
    /// All segments, if there are more than [`FEW`].
    many: HashMap<Box<[u8]>, Node, KeyHash>,
}

impl Literals {
    fn node(&mut self, literal: &[u8]) -> &mut Node {
        let known = self.few.iter().position(|(it, _)| **it == *literal);
        if known.is_none() && self.few.len() == FEW {
            self.many.extend(self.few.drain(..));
        }
        if !self.many.is_empty() {
            return self.many.entry(literal.into()).or_default();
        }
        let index = known.unwrap_or_else(|| {
            self.few.push((literal.into(), Node::default()));
            self.few.len() - 1
        });
        &mut self.few[index].1
    }

    /// The node of the first segment of a path, and the rest of the path; `None` if the path ends with that segment.
    #[inline]
    fn find<'p>(&self, path: &'p [u8]) -> Option<(&Node, Option<&'p [u8]>)> {
        for (segment, node) in &self.few {
            match behind(path, segment) {
                Some([]) => return Some((node, None)),
                Some([b'/', rest @ ..]) => return Some((node, Some(rest))),
                _ => {}
            }
        }
        if self.many.is_empty() {
            return None;
        }
        let (segment, rest) = split(path);
        Some((self.many.get(segment)?, rest))
    }
}

/// The rest of a path after `first`, if the path starts with it. Compares byte by byte, because most differ in the first one.
#[inline(always)]
fn behind<'p>(path: &'p [u8], first: &[u8]) -> Option<&'p [u8]> {
    let (start, rest) = path.split_at_checked(first.len())?;
    start.iter().zip(first).all(|(a, b)| a == b).then_some(rest)
}

/// The first segment, and the rest of the path after it.
fn split(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(end) => (&path[..end], Some(&path[end + 1..])),
        None => (path, None),
    }
}

impl Router {
    /// Adds a checked pattern. Routes are added in the order of the file.
    pub(crate) fn add(&mut self, pattern: &Pattern, route: usize) {
        let mut node = &mut self.root;
        for segment in pattern.segments() {
            node = match segment {
                Segment::Any => node.any.get_or_insert_default(),
                Segment::Is(literal) => node.literals.node(literal.as_bytes()),
            };
        }
        match pattern.is_open() {
            true => node.open.push(route),
            false => node.ends.push(route),
        }
    }

    /// The first route whose pattern matches `path` and for which `fits` returns true.
    #[inline]
    pub(crate) fn find(&self, path: &str, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let path = path.as_bytes().strip_prefix(b"/")?;
        let found = self.root.find(Some(path), &fits, NONE);
        (found != NONE).then_some(found)
    }
}

/// No route: larger than the position of every route.
const NONE: usize = usize::MAX;

impl Node {
    /// Calls [`find`](Self::find) out of line, for the first of two branches.
    #[inline(never)]
    fn find_below(&self, rest: Option<&[u8]>, fits: &impl Fn(usize) -> bool, best: usize) -> usize {
        self.find(rest, fits, best)
    }

    /// The first matching route below this node, if it comes before `best`; otherwise `best`. `rest` is `None` when the path has
    /// ended.
    #[inline(always)]
    fn find(
        &self,
        mut rest: Option<&[u8]>,
        fits: &impl Fn(usize) -> bool,
        mut best: usize,
    ) -> usize {
        let mut node = self;
        loop {
            best = node.open.first(fits, best);
            let Some(path) = rest else {
                return node.ends.first(fits, best);
            };
            let literal = node.literals.find(path);
            let any = node.any.as_deref();
            let any = any.filter(|_| !matches!(path, [] | [b'/', ..]));
            node = match (literal, any) {
                (Some((literal, behind)), Some(any)) => {
                    best = literal.find_below(behind, fits, best);
                    rest = behind;
                    any
                }
                (Some((next, behind)), None) => {
                    rest = behind;
                    next
                }
                (None, Some(next)) => {
                    rest = split(path).1;
                    next
                }
                (None, None) => return best,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_config::{Config, Format};
    use proptest::prelude::*;

    use super::*;

    fn segment() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["a", "b", "c", "", "*"])
    }

    fn pattern() -> impl Strategy<Value = String> {
        (prop::collection::vec(segment(), 1..4), any::<bool>()).prop_map(|(segments, open)| {
            let open = if open { "/**" } else { "" };
            format!("/{}{open}", segments.join("/"))
        })
    }

    /// The patterns, as a file has them.
    fn read(patterns: &[String]) -> Vec<Pattern> {
        // Each has a condition other than the path, because a route that is never reached is a mistake.
        let route = |(index, pattern)| {
            format!("  - {{ match: '{pattern}', headers: {{ x: '{index}' }}, limits: [a] }}\n")
        };
        let routes: String = patterns.iter().enumerate().map(route).collect();
        let text = format!("limits: {{ a: 1/s }}\nroutes:\n{routes}");
        let config = Config::from_str("limits.yaml", &text, Format::Yaml).unwrap();
        let routes = config.route_specs().iter();
        routes.map(|route| route.patterns[0].clone()).collect()
    }

    /// The number of routes that are compared to find one.
    #[test]
    fn a_thousand_routes_are_looked_at_as_ten_are() {
        let looked_at = |routes: usize| {
            let all = (0..routes).map(|route| format!("/v1/service_{route}/*"));
            let patterns = read(&all.chain(["/**".to_owned()]).collect::<Vec<_>>());
            let mut router = Router::default();
            for (route, pattern) in patterns.iter().enumerate() {
                router.add(pattern, route);
            }
            let looked_at = std::cell::Cell::new(0);
            let fits = |_| {
                looked_at.set(looked_at.get() + 1);
                true
            };
            let found = router.find(&format!("/v1/service_{}/x", routes / 2), fits);
            assert_eq!(found, Some(routes / 2));
            looked_at.get()
        };
        assert_eq!(
            (looked_at(10), looked_at(1000)),
            (2, 2),
            "`/**`, and the one before it"
        );
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_a_list_finds(
            patterns in prop::collection::vec(pattern(), 1..12),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", ""]), 0..5),
            odd in any::<bool>(),
        ) {
            let path = format!("/{}", path.join("/"));
            let fits = |route: usize| !odd || route % 2 == 1;
            let patterns = read(&patterns);
            let mut router = Router::default();
            for (route, pattern) in patterns.iter().enumerate() {
                router.add(pattern, route);
            }
            let mut all = patterns.iter().enumerate();
            let listed = all.find(|(route, pattern)| fits(*route) && pattern.matches(&path));
            prop_assert_eq!(router.find(&path, fits), listed.map(|(route, _)| route), "{}", path);
        }
    }
}
