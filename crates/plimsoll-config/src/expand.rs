//! Expands the short forms of limits, before the file is read into types.

use plimsoll_spec::scalar::expected;
use plimsoll_spec::{Entry, Node, Problem, Value, is_rate, label, long_form};

use crate::spec::SECTIONS;

/// The file with every limit in its long form, and the problems of the short forms.
pub(crate) fn expand(root: &Node) -> (Node, Vec<Problem>) {
    let mut problems = Vec::new();
    let root = each(root, &mut problems, |section, problems| {
        match SECTIONS.contains(&section.key.as_str()) {
            true => each(&section.value, problems, |entry, problems| {
                limit(&entry.value, problems)
            }),
            false => section.value.clone(),
        }
    });
    (root, problems)
}

/// A map with its values replaced. Problems get their path.
fn each(
    map: &Node,
    problems: &mut Vec<Problem>,
    mut value: impl FnMut(&Entry, &mut Vec<Problem>) -> Node,
) -> Node {
    let Value::Map(entries) = &map.value else {
        return map.clone();
    };
    let entry = |entry: &Entry| {
        let mut inner = Vec::new();
        let value = value(entry, &mut inner);
        let under = |problem: Problem| problem.under_key(&label(&entry.key));
        problems.extend(inner.into_iter().map(under));
        Entry {
            key: entry.key.clone(),
            place: entry.place,
            value,
        }
    };
    Node::new(map.place, Value::Map(entries.iter().map(entry).collect()))
}

fn limit(node: &Node, problems: &mut Vec<Problem>) -> Node {
    let long = long_form(node, problems);
    each(&long, problems, |field, problems| {
        match field.key.as_str() {
            "of" => members(&field.value, problems),
            "tiers" => each(&field.value, problems, |entry, problems| {
                match entry.key.as_str() {
                    "by" => entry.value.clone(),
                    _ => tier(&entry.value, problems),
                }
            }),
            "overrides" => each(&field.value, problems, |entry, problems| {
                tier(&entry.value, problems)
            }),
            _ => field.value.clone(),
        }
    })
}

/// Members of `all`: a word is the name of one.
fn members(list: &Node, problems: &mut Vec<Problem>) -> Node {
    let Value::List(items) = &list.value else {
        return list.clone();
    };
    let member = |(index, item): (usize, &Node)| {
        let Value::Map(_) = &item.value else {
            return item.clone();
        };
        let mut inner = Vec::new();
        let long = limit(item, &mut inner);
        problems.extend(inner.into_iter().map(|problem| problem.under_index(index)));
        long
    };
    let items = items.iter().enumerate().map(member).collect();
    Node::new(list.place, Value::List(items))
}

/// A tier: a word, or a limit.
fn tier(node: &Node, problems: &mut Vec<Problem>) -> Node {
    match &node.value {
        Value::Scalar { text, .. } if ["unlimited", "blocked"].contains(&text.as_str()) => {
            node.clone()
        }
        Value::Scalar { text, .. } if !is_rate(text) => {
            let wanted =
                "a rate such as 100/s, `unlimited`, `blocked`, or a limit of the same kind";
            problems.push(expected(wanted, node));
            Entry::word("", "blocked", node.place).value
        }
        _ => long_form(node, problems),
    }
}
