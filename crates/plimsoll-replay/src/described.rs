//! Limits as they are written in a file, and copies of them with other numbers.

use plimsoll_config::{Config, ConfigError, Format};
use serde_json::Value;

/// The limits of a configuration with every default, as a document that [`read`] accepts.
pub(crate) fn document(config: &Config) -> Value {
    let mut document: Value = serde_json::from_str(&config.to_json()).unwrap_or_default();
    // Fields that describe limits and routes and have no effect.
    let limits = document.get_mut("limits").and_then(Value::as_object_mut);
    for limit in limits.into_iter().flat_map(|limits| limits.values_mut()) {
        remove(limit, "class");
    }
    let routes = document.get_mut("routes").and_then(Value::as_array_mut);
    for route in routes.into_iter().flatten() {
        remove(route, "asks");
    }
    document
}

fn remove(from: &mut Value, field: &str) {
    if let Some(from) = from.as_object_mut() {
        from.remove(field);
    }
}

/// A short description of a limit: `5/s, burst 10`, `10 per 1m`, `4 at once`.
pub(crate) fn words(limit: &Value) -> String {
    let number = |field: &str| limit.get(field).and_then(Value::as_u64);
    let text = |field: &str| limit.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("kind") {
        "token_bucket" => {
            let (refill, burst) = (number("refill").unwrap_or(0), number("burst").unwrap_or(0));
            let every = text("every");
            let every = every
                .strip_prefix('1')
                .filter(|unit| unit.starts_with(char::is_alphabetic))
                .unwrap_or(every);
            match refill == burst {
                true => format!("{refill}/{every}"),
                false => format!("{refill}/{every}, burst {burst}"),
            }
        }
        "concurrency" => format!("{} at once", number("limit").unwrap_or(0)),
        kind => match (number("limit"), text("window")) {
            (Some(limit), window) if !window.is_empty() => format!("{limit} per {window}"),
            _ => kind.to_owned(),
        },
    }
}

/// Whether a limit is only a number: it has no queue, and its decisions depend only on its earlier grants.
pub(crate) fn is_bare(limit: &Value) -> bool {
    field(limit).is_some() && limit.get("queue").is_none_or(Value::is_null)
}

/// The number of a limit that consists of one number. `None` for any other limit.
pub(crate) fn number(limit: &Value) -> Option<u64> {
    limit.get(field(limit)?)?.as_u64()
}

fn field(limit: &Value) -> Option<&'static str> {
    match limit.get("kind")?.as_str()? {
        "token_bucket" => Some("refill"),
        "fixed_window" | "sliding_window" | "sliding_log" | "concurrency" => Some("limit"),
        _ => None,
    }
}

/// Returns the same limit with another number. A burst stays in proportion, and a queue as it is.
pub(crate) fn with_number(limit: &Value, to: u64) -> Option<Value> {
    let field = field(limit)?;
    let before = limit.get(field)?.as_u64()?.max(1);
    let mut limit = limit.clone();
    limit[field] = to.into();
    if field == "refill" {
        let burst = limit.get("burst").and_then(Value::as_u64).unwrap_or(before);
        let burst = (u128::from(burst) * u128::from(to) / u128::from(before)).max(1);
        limit["burst"] = u64::try_from(burst).unwrap_or(u64::MAX).into();
        remove(&mut limit, "initial");
    }
    Some(limit)
}

/// Reads a document into a configuration.
pub(crate) fn read(document: &Value) -> Result<Config, ConfigError> {
    Config::from_str("candidate.json", &document.to_string(), Format::Json)
}
