//! Detects the command for which a file is meant.

use std::path::Path;

use plimsoll_spec::{Format, Node, Value, text_of};

/// The command for which a file is meant, by its fields, and its kind. `None` if that is `given` or unknown.
fn other(path: &Path, given: &str) -> Option<(&'static str, &'static str)> {
    let text = text_of(path).ok()?;
    let root = Format::of(path).tree(&text, "a file").ok()?;
    let found = match &root.value {
        Value::List(items) if items.iter().any(|item| has(item, &["steps"])) => {
            ("test", "scenarios")
        }
        _ if has(&root, &["scenarios"]) => ("test", "scenarios"),
        _ if has(&root, &["workers", "service"]) => ("simulate", "a simulation"),
        _ if has(&root, &["limits", "limiters", "routes", "stores"]) => ("check", "limits"),
        _ => return None,
    };
    (found.0 != given).then_some(found)
}

/// Whether the node is a map with one of these fields.
fn has(node: &Node, names: &[&str]) -> bool {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .any(|entry| names.contains(&entry.key.as_str())),
        _ => false,
    }
}

/// A hint for a file that `given` cannot read because it is meant for another command.
pub(crate) fn hint(path: &Path, given: &str) -> Option<String> {
    let (command, what) = other(path, given)?;
    let path = path.display();
    Some(format!(
        "{path}: this file holds {what}: did you mean `plimsoll {command} {path}`?"
    ))
}
