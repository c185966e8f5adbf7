//! As much of JSON Schema as the schemas of this project use.

use std::path::{Path, PathBuf};

use plimsoll_spec::{Node, Value as Tree, parse};
use serde_json::{Map, Value};

/// A file or directory of the repository.
pub(crate) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Whether the file in `schema/` is what is printed; `run` says how to write it.
#[track_caller]
pub(crate) fn assert_current(name: &str, schema: &str, run: &str) {
    let file = project("schema").join(name);
    if std::env::var_os("PLIMSOLL_REWRITE").is_some() {
        std::fs::write(&file, schema).expect("a file");
    }
    let committed = std::fs::read_to_string(file).unwrap_or_default();
    assert!(committed == schema, "the schema is not current; {run}");
}

/// Whether a YAML text is what the schema says.
pub(crate) fn check(schema: &Value, text: &str) -> Result<(), String> {
    let tree = parse(text).expect("YAML").expect("something");
    valid(schema, schema, &value(&tree))
}

/// A tree as JSON.
fn value(node: &Node) -> Value {
    match &node.value {
        Tree::Scalar { text, quoted: true } => Value::from(text.as_str()),
        Tree::Scalar { .. } if node.is_null() => Value::Null,
        Tree::Scalar { text, .. } => match serde_json::from_str(text) {
            Ok(plain @ (Value::Number(_) | Value::Bool(_))) => plain,
            _ => Value::from(text.as_str()),
        },
        Tree::List(items) => items.iter().map(value).collect(),
        Tree::Map(entries) => {
            let fields = entries
                .iter()
                .map(|entry| (entry.key.clone(), value(&entry.value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// As much of JSON Schema as ours uses.
fn valid(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(rules) = schema else {
        return if schema == &Value::Bool(false) {
            Err("nothing may be here".to_owned())
        } else {
            Ok(())
        };
    };
    let fail = |rule: &str| Err(format!("{value} is not {rule}: {}", rules[rule]));
    let ok = |schema: &Value| valid(root, schema, value).is_ok();
    let list = |rule: &str| rules[rule].as_array().cloned().unwrap_or_default();
    for (rule, wanted) in rules {
        let good = match rule.as_str() {
            "$ref" => {
                let name = wanted
                    .as_str()
                    .and_then(|name| name.strip_prefix('#'))
                    .expect("a reference");
                let definition = root.pointer(name).expect("a definition");
                valid(root, definition, value)?;
                true
            }
            "type" => match wanted.as_str().expect("one type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                other => panic!("type {other}"),
            },
            "const" => value == wanted,
            "enum" => list(rule).contains(value),
            "oneOf" => list(rule).iter().filter(|schema| ok(schema)).count() == 1,
            "anyOf" => list(rule).iter().any(ok),
            "allOf" => list(rule).iter().all(ok),
            "minimum" => value.as_f64().is_none_or(|it| Some(it) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|it| Some(it) <= wanted.as_f64()),
            "exclusiveMinimum" => value.as_f64().is_none_or(|it| Some(it) > wanted.as_f64()),
            "pattern" => value
                .as_str()
                .is_none_or(|text| matches(wanted.as_str().expect("a pattern"), text)),
            "required" => value.as_object().is_none_or(|it| {
                list(rule)
                    .iter()
                    .all(|name| it.contains_key(name.as_str().expect("a name")))
            }),
            "items" => value
                .as_array()
                .is_none_or(|it| it.iter().all(|item| valid(root, wanted, item).is_ok())),
            "propertyNames" => value.as_object().is_none_or(|it| {
                it.keys()
                    .all(|name| valid(root, wanted, &name.as_str().into()).is_ok())
            }),
            "properties" => value.as_object().is_none_or(|it| {
                it.iter().all(|(name, field)| {
                    wanted
                        .get(name)
                        .is_none_or(|schema| valid(root, schema, field).is_ok())
                })
            }),
            "additionalProperties" => value.as_object().is_none_or(|it| {
                let known = |name: &str| {
                    rules
                        .get("properties")
                        .is_some_and(|known| known.get(name).is_some())
                };
                let set_apart =
                    |name: &str| rules.contains_key("patternProperties") && name.starts_with("x-");
                it.iter().all(|(name, field)| {
                    known(name) || set_apart(name) || valid(root, wanted, field).is_ok()
                })
            }),
            "patternProperties" => {
                assert_eq!(wanted.to_string(), r#"{"^x-":{}}"#);
                true
            }
            "$schema" | "title" | "description" | "default" | "definitions" | "format" => true,
            other => panic!("the rule {other} is not known here"),
        };
        if !good {
            return fail(rule);
        }
    }
    Ok(())
}

/// The few patterns of the schema, by what they mean.
fn matches(pattern: &str, text: &str) -> bool {
    let unit = |units: &[&str]| {
        units
            .iter()
            .find_map(|unit| text.strip_suffix(unit))
            .filter(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let named = |words: &[&str]| {
        let word = |(word, name): (&str, &str)| words.contains(&word) && !name.is_empty();
        text.split_once(':').is_some_and(word)
    };
    const TIMES: [&str; 7] = ["ns", "us", "ms", "s", "m", "h", "d"];
    match pattern {
        "^refused by .+$" => text.starts_with("refused by ") && text.len() > 11,
        "^[A-Z-]+ +/[^ ]*( +from +[^ ]+)?$" => {
            let words: Vec<&str> = text.split_whitespace().collect();
            match words[..] {
                [method, path] | [method, path, "from", _] => {
                    method
                        .bytes()
                        .all(|it| it.is_ascii_uppercase() || it == b'-')
                        && path.starts_with('/')
                }
                _ => false,
            }
        }
        "^[0-9]+(ns|us|ms|s|m|h|d)$" => unit(&TIMES).is_some(),
        "^0*[1-9][0-9]*(ns|us|ms|s|m|h|d)$" => {
            unit(&TIMES).is_some_and(|number| number.bytes().any(|b| b != b'0'))
        }
        "^fixed=0*[1-9][0-9]*$" => text
            .strip_prefix("fixed=")
            .is_some_and(|number| digits(number) && number.bytes().any(|b| b != b'0')),
        "^(>=|<=|>|<|=) *[0-9.]+(%|ns|us|ms|s|m|h|d)?$" => {
            let rest = text.trim_start_matches(['>', '<', '=']);
            let number = rest
                .trim_start()
                .trim_end_matches(|c: char| c == '%' || c.is_ascii_lowercase());
            text.len() - rest.len() > 0
                && !number.is_empty()
                && number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        }
        "^[A-Za-z0-9_.-]{1,64}$" => {
            (1..=64).contains(&text.len())
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        }
        "^([1-9][0-9]?|100)%$" => unit(&["%"]).is_some_and(|number| {
            (1..=100).contains(&number.parse().unwrap_or(0)) && !number.starts_with('0')
        }),
        "^([0-9]{1,2}%|100%|[0-9]+(B|KiB|MiB|GiB))$" => {
            unit(&["%"]).is_some_and(|number| number.len() <= 2 || number == "100")
                || unit(&["KiB", "MiB", "GiB", "B"]).is_some()
        }
        "^(rediss?://|[$][{]).+$" => {
            let rest = text
                .strip_prefix("redis://")
                .or_else(|| text.strip_prefix("${"));
            let rest = rest.or_else(|| text.strip_prefix("rediss://"));
            rest.is_some_and(|rest| !rest.is_empty())
        }
        "^[0-9]+[kMG]?$" => digits(text.trim_end_matches(['k', 'M', 'G'])),
        "^header:.+$" => named(&["header"]),
        "^(header|response_header|json|response_json):.+$" => {
            named(&["header", "response_header", "json", "response_json"])
        }
        "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$" => {
            let (address, prefix) = text.split_once('/').unwrap_or((text, "0"));
            address
                .chars()
                .all(|c| c.is_ascii_hexdigit() || ":.".contains(c))
                && digits(prefix)
        }
        "^[1-5](xx|[0-9]{2}(-[1-5][0-9]{2})?)$" => {
            let one = |text: &str| {
                text.len() == 3 && digits(text) && text.starts_with(['1', '2', '3', '4', '5'])
            };
            let range = |(from, to): (&str, &str)| one(from) && one(to);
            text.strip_suffix("xx").map_or_else(
                || one(text) || text.split_once('-').is_some_and(range),
                |class| one(&format!("{class}00")),
            )
        }
        rate if rate.starts_with("^[0-9]+([.][0-9]+)?[kMG]?/") => {
            const UNITS: [&str; 14] = [
                "ms", "s", "sec", "second", "seconds", "m", "min", "minute", "minutes", "h",
                "hour", "hours", "d", "day",
            ];
            text.split_once('/').is_some_and(|(amount, period)| {
                let amount = amount.trim_end_matches(['k', 'M', 'G']);
                let number = amount.split('.').all(digits) && amount.split('.').count() <= 2;
                number && UNITS.contains(&period.trim_start_matches(|c: char| c.is_ascii_digit()))
            })
        }
        key if key.starts_with("^(header|cookie|query|segment|") => named(&[
            "header",
            "cookie",
            "query",
            "segment",
            "metadata",
            "descriptor",
            "claim",
            "form",
            "json",
            "constant",
        ]),
        r"^([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$" => {
            text.parse::<std::net::SocketAddr>().is_ok()
        }
        "^https?://[^/?#@]+/?$" => {
            let rest = text.strip_prefix("https://");
            let rest = rest.or_else(|| text.strip_prefix("http://"));
            let host = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
            host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@']))
        }
        "^[0-9]+(B|KiB|MiB|GiB)$" => unit(&["KiB", "MiB", "GiB", "B"]).is_some(),
        other => panic!("the pattern {other} is not known here"),
    }
}
