//! Which route is for a request: the first of the file that matches, found without looking at all of them.

use std::collections::HashMap;

/// A tree of the segments of path patterns. Where several match, the first of the file counts.
#[derive(Debug, Default)]
pub(crate) struct Router {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    literal: HashMap<Box<str>, Node>,
    /// `*`: one segment that is not empty.
    any: Option<Box<Node>>,
    /// Routes that end here, in the order of the file.
    ends: Vec<usize>,
    /// Routes with `**` from here on, in the order of the file.
    open: Vec<usize>,
}

impl Router {
    /// Adds a pattern that was checked before. Routes are added in the order of the file.
    pub(crate) fn add(&mut self, pattern: &str, route: usize) {
        let mut node = &mut self.root;
        let path = pattern.strip_prefix('/').unwrap_or(pattern);
        for segment in path.split('/') {
            node = match segment {
                "**" => {
                    node.open.push(route);
                    return;
                }
                "*" => node.any.get_or_insert_default(),
                literal => node.literal.entry(literal.into()).or_default(),
            };
        }
        node.ends.push(route);
    }

    /// The first route whose pattern matches `path` and that `fits` in everything else.
    pub(crate) fn find(&self, path: &str, fits: &dyn Fn(usize) -> bool) -> Option<usize> {
        let path = path.strip_prefix('/')?;
        let mut best = None;
        self.root.find(Some(path), fits, &mut best);
        best
    }
}

impl Node {
    /// `rest` is `None` when the path has ended.
    fn find(&self, rest: Option<&str>, fits: &dyn Fn(usize) -> bool, best: &mut Option<usize>) {
        first(&self.open, fits, best);
        let Some(rest) = rest else {
            first(&self.ends, fits, best);
            return;
        };
        let (segment, rest) = match rest.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (rest, None),
        };
        if let Some(node) = self.literal.get(segment) {
            node.find(rest, fits, best);
        }
        if let Some(node) = &self.any
            && !segment.is_empty()
        {
            node.find(rest, fits, best);
        }
    }
}

/// The first of `routes` that is before the best so far and fits.
fn first(routes: &[usize], fits: &dyn Fn(usize) -> bool, best: &mut Option<usize>) {
    let before = |route: &usize| best.is_none_or(|best| *route < best);
    let found = routes
        .iter()
        .copied()
        .take_while(before)
        .find(|route| fits(*route));
    if found.is_some() {
        *best = found;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The meaning of a pattern, said without a tree.
    fn matches(pattern: &str, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else {
            return false;
        };
        let pattern: Vec<&str> = pattern[1..].split('/').collect();
        let path: Vec<&str> = path.split('/').collect();
        let open = pattern.last() == Some(&"**");
        let fixed = &pattern[..pattern.len() - usize::from(open)];
        let enough = if open {
            path.len() >= fixed.len()
        } else {
            path.len() == fixed.len()
        };
        let same = |(wanted, segment): (&&str, &&str)| match *wanted {
            "*" => !segment.is_empty(),
            wanted => wanted == *segment,
        };
        enough && fixed.iter().zip(&path).all(same)
    }

    fn segment() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["a", "b", "c", "", "*"])
    }

    fn pattern() -> impl Strategy<Value = String> {
        (prop::collection::vec(segment(), 1..4), any::<bool>()).prop_map(|(segments, open)| {
            let open = if open { "/**" } else { "" };
            format!("/{}{open}", segments.join("/"))
        })
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_a_list_finds(
            patterns in prop::collection::vec(pattern(), 0..12),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", ""]), 0..5),
            odd in any::<bool>(),
        ) {
            let path = format!("/{}", path.join("/"));
            let fits = |route: usize| !odd || route % 2 == 1;
            let mut router = Router::default();
            for (route, pattern) in patterns.iter().enumerate() {
                router.add(pattern, route);
            }
            let all = patterns.iter().enumerate();
            let listed = all.filter(|(route, pattern)| fits(*route) && matches(pattern, &path)).map(|(route, _)| route).next();
            prop_assert_eq!(router.find(&path, &fits), listed, "{}", path);
        }
    }
}
