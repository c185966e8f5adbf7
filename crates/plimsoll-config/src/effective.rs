//! The effective configuration, with every default filled in: as YAML that reads as the same configuration, and as JSON.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use plimsoll_spec::{Entry, Limiter, Node, Value, parse};
use serde::Serialize;

use crate::check::Plan;
use crate::spec::{File, Limit, SECTIONS};
use crate::uses::Use;

/// The field that replaces those of a greedy token bucket, as in short forms.
pub(crate) const RATE: &str = "rate";

/// Writes the limits that are in effect.
pub(crate) fn write(file: &File, plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(mut root) = tree(file) else {
        return f.write_str("{}\n");
    };
    if let Value::Map(sections) = &mut root.value {
        for section in sections {
            // Addresses are printed as they were written, with their variables: there may be a password in one.
            let written: &[&str] = match section.key.as_str() {
                "stores" => &["url", "cluster"],
                _ => &[],
            };
            escape(&mut section.value, written);
        }
    }
    for section in entries(&root) {
        match section.key.as_str() {
            "limiters" if !file.limits.is_empty() && file.limiters.is_empty() => {}
            name if SECTIONS.contains(&name) => limiters(plan, name, &section.value, f)?,
            name => {
                writeln!(f, "{name}:")?;
                block(&section.value, f)?;
            }
        }
    }
    Ok(())
}

/// The effective configuration as JSON, with stable field names.
///
/// All limiters are in `limits`, regardless of their section, each with its `class`. `asks` of a route lists its limits and
/// providers, with lists expanded.
pub(crate) fn json(file: &File, plan: &Plan) -> serde_json::Value {
    let mut json = serde_json::Map::new();
    let Some(root) = tree(file) else {
        return json.into();
    };
    let mut limits = serde_json::Map::new();
    for section in entries(&root) {
        if !SECTIONS.contains(&section.key.as_str()) {
            json.insert(section.key.clone(), value(&section.value));
            continue;
        }
        for entry in entries(&section.value) {
            let fields = limit(&entry.value).into_iter();
            let fields = fields.map(|field| (field.key, value(&field.value)));
            let mut fields: serde_json::Map<String, serde_json::Value> = fields.collect();
            if let Some(definition) = plan.definition(&entry.key) {
                fields.insert("class".to_owned(), definition.class.to_string().into());
            }
            limits.insert(entry.key.clone(), fields.into());
        }
    }
    json.insert("limits".to_owned(), limits.into());
    let routes = json
        .get_mut("routes")
        .and_then(serde_json::Value::as_array_mut);
    for (route, spec) in routes.into_iter().flatten().zip(&plan.routes) {
        route["asks"] = spec.limits.clone().into();
    }
    json.into()
}

/// The fields of a limiter and of how it is used, each with its value on one line. Tiers that are limiters themselves are
/// left out.
pub(crate) fn fields(limiter: &Limiter, uses: Option<&Use>) -> Vec<(String, String)> {
    let limit_of = Limit {
        uses: uses.cloned().unwrap_or_default(),
        limiter: limiter.clone(),
    };
    let mut fields = Vec::new();
    for field in tree(&limit_of).map_or_else(Vec::new, |node| limit(&node)) {
        match (field.key.as_str(), &field.value.value) {
            ("tiers" | "overrides", Value::Map(tiers)) => {
                let words = tiers.iter();
                let words = words.filter(|it| matches!(it.value.value, Value::Scalar { .. }));
                fields
                    .extend(words.map(|it| (format!("{}.{}", field.key, it.key), flow(&it.value))));
            }
            _ => fields.push((field.key, flow(&field.value))),
        }
    }
    fields
}

/// Puts the fields of a greedy token bucket into the short form: `100/s`, with a burst if it is not the same.
pub(crate) fn as_rate(fields: &mut Vec<(String, String)>) {
    let value = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    };
    let (Some(refill), Some(every)) = (value("refill"), value("every")) else {
        return;
    };
    let unit = every.strip_prefix('1');
    let unit = unit.filter(|unit| unit.starts_with(|c: char| c.is_ascii_alphabetic()));
    let rate = format!("{refill}/{}", unit.unwrap_or(every));
    let burst = value("burst").map(str::to_owned);
    let implied = burst.as_deref() == Some(refill);
    fields.retain(|(field, value)| match field.as_str() {
        "kind" | "refill" | "every" | "style" => false,
        "burst" => !implied,
        "initial" => Some(value) != burst.as_ref(),
        _ => true,
    });
    fields.insert(0, (RATE.to_owned(), rate));
}

/// The other sections of a file, one line for each store, provider, list and route.
pub(crate) fn settings(file: &File) -> Vec<(String, String)> {
    let root = tree(file);
    let mut settings = Vec::new();
    for section in root.as_ref().map_or(&[][..], entries) {
        let name = section.key.as_str();
        match &section.value.value {
            _ if SECTIONS.contains(&name) => {}
            Value::List(routes) if name == "routes" => {
                for (route, spec) in routes.iter().zip(&file.routes) {
                    let first = || spec.paths.as_slice().first().map_or("", String::as_str);
                    let label = spec.name.as_ref().map_or_else(first, |name| &name.0);
                    settings.push((format!("route {label}"), flow(route)));
                }
            }
            Value::Map(named) if ["stores", "providers", "middleware"].contains(&name) => {
                let named = named.iter();
                settings.extend(named.map(|it| (format!("{name}.{}", it.key), flow(&it.value))));
            }
            _ => settings.push((name.to_owned(), flow(&section.value))),
        }
    }
    number_alike(&mut settings);
    settings
}

/// Numbers repeated names, because routes may have the same path.
fn number_alike(settings: &mut [(String, String)]) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for (name, _) in settings {
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            *name = format!("{name} ({times})");
        }
    }
}

/// Serializes a value to a tree.
fn tree(of: &impl Serialize) -> Option<Node> {
    // JSON keeps the order of fields, and the reader returns it as a tree.
    let json = serde_json::to_string(of).ok()?;
    parse(&json).ok().flatten()
}

/// Escapes texts that only look like variables, so that they read as they are. Fields that are printed as `written` may
/// contain variables.
fn escape(node: &mut Node, written: &[&str]) {
    match &mut node.value {
        Value::Scalar { text, .. } if text.contains("${") => *text = text.replace("${", "$${"),
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter_mut().for_each(|item| escape(item, written)),
        Value::Map(fields) => fields
            .iter_mut()
            .filter(|field| !written.contains(&field.key.as_str()))
            .for_each(|field| escape(&mut field.value, written)),
    }
}

/// A value as JSON.
fn value(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Scalar { text, quoted: true } => text.as_str().into(),
        Value::Scalar { text, .. } => {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        }
        Value::List(items) => items.iter().map(value).collect(),
        Value::Map(entries) => {
            let fields = entries
                .iter()
                .map(|entry| (entry.key.clone(), value(&entry.value)));
            serde_json::Value::Object(fields.collect())
        }
    }
}

fn limiters(plan: &Plan, section: &str, node: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if entries(node).is_empty() {
        return writeln!(f, "{section}: {{}}");
    }
    writeln!(f, "{section}:")?;
    for entry in entries(node) {
        let name = &entry.key;
        let definition = plan.definition(name);
        write!(f, "  {}:", word(name))?;
        if let Some(definition) = definition {
            write!(f, " # {}", definition.class)?;
        }
        f.write_char('\n')?;
        for field in limit(&entry.value) {
            writeln!(f, "    {}: {}", field.key, flow(&field.value))?;
        }
    }
    Ok(())
}

/// A map or a list, one line for each.
fn block(node: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .try_for_each(|entry| writeln!(f, "  {}: {}", word(&entry.key), flow(&entry.value))),
        Value::List(items) => items
            .iter()
            .try_for_each(|item| writeln!(f, "  - {}", flow(item))),
        Value::Scalar { .. } => writeln!(f, "  {}", flow(node)),
    }
}

/// The fields of a limiter and of its use, as in a file.
fn limit(node: &Node) -> Vec<Entry> {
    let part = |name: &str| entries(node).iter().find(|part| part.key == name);
    let mut fields = part("limiter").map_or_else(Vec::new, |limiter| flat(&limiter.value));
    let uses = part("uses").map_or(&[][..], |uses| entries(&uses.value));
    fields.extend(uses.iter().map(|field| match field.key.as_str() {
        "tiers" | "overrides" => Entry {
            value: Node {
                value: Value::Map(entries(&field.value).iter().map(tier).collect()),
                ..field.value.clone()
            },
            ..field.clone()
        },
        _ => field.clone(),
    }));
    fields
}

/// A tier, which may be a limiter of its own.
fn tier(entry: &Entry) -> Entry {
    match &entry.value.value {
        Value::Map(_) => Entry {
            value: Node {
                value: Value::Map(flat(&entry.value)),
                ..entry.value.clone()
            },
            ..entry.clone()
        },
        _ => entry.clone(),
    }
}

/// The fields of a limiter as in a file: serde nests the kind and the algorithm.
fn flat(limiter: &Node) -> Vec<Entry> {
    let part = |name: &str| entries(limiter).iter().find(|part| part.key == name);
    let mut fields = part("kind").map_or_else(Vec::new, |kind| tagged("kind", &kind.value));
    let common = part("common").map_or(&[][..], |common| entries(&common.value));
    fields.extend_from_slice(common);
    fields
}

/// `{ word: { … } }` as `{ tag: word, … }`.
fn tagged(tag: &str, node: &Node) -> Vec<Entry> {
    let Some(choice) = entries(node).first() else {
        return Vec::new();
    };
    let value = Value::Scalar {
        text: choice.key.clone(),
        quoted: true,
    };
    let place = node.place;
    let mut fields = vec![Entry {
        key: tag.to_owned(),
        place,
        value: Node::new(place, value),
    }];
    match choice.key.as_str() {
        "adaptive" => fields.extend(tagged("algorithm", &choice.value)),
        _ => fields.extend(entries(&choice.value).iter().map(inside)),
    }
    fields
}

/// A field that may hold limiters or an algorithm.
fn inside(field: &Entry) -> Entry {
    let place = field.value.place;
    let value = match (field.key.as_str(), &field.value.value) {
        ("delegate" | "adaptive", _) => Value::Map(tagged("algorithm", &field.value)),
        ("of", Value::List(members)) => Value::List(members.iter().map(member).collect()),
        (_, value) => value.clone(),
    };
    Entry {
        value: Node::new(place, value),
        ..field.clone()
    }
}

fn member(node: &Node) -> Node {
    match entries(node).first() {
        Some(inline) if inline.key == "inline" => {
            Node::new(node.place, Value::Map(flat(&inline.value)))
        }
        Some(name) => name.value.clone(),
        None => node.clone(),
    }
}

fn entries(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

/// A value on one line.
fn flow(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, quoted: true } => word(text),
        Value::Scalar { text, .. } => text.clone(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let field = |entry: &Entry| format!("{}: {}", word(&entry.key), flow(&entry.value));
            let fields: Vec<String> = entries.iter().map(field).collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}

/// A text, in quotes if it would be read as something else.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_%.-".contains(c);
    let begins = |c: char| c.is_ascii_alphabetic() || c.is_ascii_digit();
    let taken = ["true", "false", "null"].contains(&text) || text.parse::<f64>().is_ok();
    if text.starts_with(begins) && text.chars().all(plain) && !taken {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}
