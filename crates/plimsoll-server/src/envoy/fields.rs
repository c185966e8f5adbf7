//! Reads single fields of the reference server's YAML. Records errors and continues.

use plimsoll_spec::scalar::nearest;
use plimsoll_spec::{Entry, Node, Problem, Value, label, quote};

use super::metadata::{self, Map};

/// All known fields. As in the reference server, an unknown field is an error anywhere, and a known field in the wrong place is
/// ignored.
const FIELDS: [&str; 17] = [
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "unit_multiplier",
];

/// Reads fields and records errors.
#[derive(Default)]
pub(super) struct Reader {
    /// The index of the current file.
    pub(super) file: usize,
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn wrong(&mut self, node: &Node, field: &str, message: impl Into<String>) {
        let problem = Problem::new(node.place, message).under_key(field);
        self.problems.push(problem.in_file(self.file));
    }

    /// The fields of a map. Records an error for each unknown field.
    pub(super) fn fields<'t>(&mut self, node: &'t Node, field: &str) -> Option<&'t [Entry]> {
        let Value::Map(entries) = &node.value else {
            self.wrong(node, field, format!("expected a map, found {}", kind(node)));
            return None;
        };
        for entry in entries {
            if !FIELDS.contains(&entry.key.as_str()) {
                let hint = nearest(&entry.key, FIELDS.iter().copied());
                let message = format!("unknown field{hint}");
                let field = below(field, &label(&entry.key));
                let problem = Problem::new(entry.place, message).under_key(&field);
                self.problems.push(problem.in_file(self.file));
            }
        }
        Some(entries)
    }

    /// The items of an optional list of maps.
    pub(super) fn list<'t>(
        &mut self,
        fields: &'t [Entry],
        name: &str,
        within: &str,
    ) -> Vec<(String, &'t Node)> {
        let Some(node) = get(fields, name) else {
            return Vec::new();
        };
        let field = below(within, name);
        let Value::List(items) = &node.value else {
            if !node.is_null() {
                let message = format!("expected a list of maps, found {}", kind(node));
                self.wrong(node, &field, message);
            }
            return Vec::new();
        };
        let items = items.iter().enumerate();
        items
            .map(|(index, item)| (format!("{field}[{index}]"), item))
            .collect()
    }

    /// A string, number or boolean, as text.
    pub(super) fn text(&mut self, fields: &[Entry], name: &str, within: &str) -> Option<String> {
        let node = get(fields, name).filter(|node| !node.is_null())?;
        match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } if is_float(text) => {
                let message = format!(
                    "expected a text, found the number {}: put it in quotes",
                    quote(text)
                );
                self.wrong(node, &below(within, name), message);
                None
            }
            Value::Scalar { text, .. } => Some(text.clone()),
            _ => {
                let message = format!("expected a text, found {}", kind(node));
                self.wrong(node, &below(within, name), message);
                None
            }
        }
    }

    pub(super) fn flag(&mut self, fields: &[Entry], name: &str, within: &str) -> bool {
        let Some(node) = get(fields, name).filter(|node| !node.is_null()) else {
            return false;
        };
        let text = match &node.value {
            Value::Scalar {
                text,
                quoted: false,
            } => text.to_ascii_lowercase(),
            _ => String::new(),
        };
        match text.as_str() {
            "true" | "yes" | "on" | "y" => true,
            "false" | "no" | "off" | "n" => false,
            _ => {
                let message = format!("expected true or false, found {}", kind(node));
                self.wrong(node, &below(within, name), message);
                false
            }
        }
    }

    pub(super) fn number(&mut self, fields: &[Entry], name: &str, within: &str) -> Option<u32> {
        let node = get(fields, name).filter(|node| !node.is_null())?;
        let number = match &node.value {
            Value::Scalar { text, .. } => text.replace('_', "").parse().ok(),
            _ => None,
        };
        if number.is_none() {
            let message = format!(
                "expected a whole number from 0 to {}, found {}",
                u32::MAX,
                kind(node)
            );
            self.wrong(node, &below(within, name), message);
        }
        number
    }

    pub(super) fn metadata(&mut self, fields: &[Entry], within: &str) -> Option<Map> {
        let node = get(fields, "metadata").filter(|node| !node.is_null())?;
        match metadata::of_node(node) {
            Some(metadata) => Some(metadata),
            None => {
                let message = format!("expected a map, found {}", kind(node));
                self.wrong(node, &below(within, "metadata"), message);
                None
            }
        }
    }
}

pub(super) fn get<'t>(fields: &'t [Entry], name: &str) -> Option<&'t Node> {
    let entry = fields.iter().find(|entry| entry.key == name)?;
    Some(&entry.value)
}

pub(super) fn below(field: &str, name: &str) -> String {
    match field {
        "" => name.to_owned(),
        field => format!("{field}.{name}"),
    }
}

fn kind(node: &Node) -> String {
    match &node.value {
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
        _ if node.is_null() => "nothing".to_owned(),
        Value::Scalar { text, .. } => quote(text),
    }
}

/// Whether an unquoted scalar is a floating-point number.
fn is_float(text: &str) -> bool {
    let is_number = text.contains(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    is_number && !digits.bytes().all(|byte| byte.is_ascii_digit())
}
