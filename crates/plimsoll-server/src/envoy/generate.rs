//! Generates the engine configuration for a tree: fixed windows aligned to 1970, with a counter for each key.

use std::collections::BTreeSet;

use plimsoll_config::{Config, ConfigError, Format};
use plimsoll_tower::keys::bounded;
use serde_json::{Map, Value, json};

use super::tree::Tree;

/// The limit of the counters of overrides (limits that come with a request).
pub(super) const MOST: u32 = u32::MAX;
/// Maximum number of counters, of all limits together.
const COUNTERS: usize = 4_000_000;
/// Timeout of a store. Envoy's own default timeout is much shorter.
const DEADLINE: &str = "1s";
/// Minimum number of counters that each limit may have.
const FEWEST: usize = 1_000;

/// The name of the limit that counts overrides with windows of `window` seconds. Its limit is the maximum: the override, which may
/// change with each request, is compared with the count.
pub(super) fn override_limit(window: u64) -> String {
    format!("envoy-own-{window}")
}

/// The window, in seconds, of a limit named by [`override_limit`]. `None` for other limits.
pub(super) fn override_window(limit: &str) -> Option<u64> {
    limit.strip_prefix("envoy-own-")?.parse().ok()
}

/// The name of the limit that marks the counters above their limits, for windows of `window` seconds.
pub(super) fn over_limit_mark(window: u64) -> String {
    format!("envoy-over-{window}")
}

/// The name of a limit in the engine. It depends only on the limit's path in the tree.
pub(super) fn id(path: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    let shown: String = path.chars().filter(plain).take(24).collect();
    let digest = bounded(path.into(), 0);
    format!("{shown}-{}", digest.trim_start_matches('~'))
}

/// The configuration for the limits of a tree, and for overrides with these windows in seconds.
pub(super) fn config(
    tree: &Tree,
    override_windows: &BTreeSet<u64>,
    all_shadow: bool,
    store: Option<&str>,
) -> Result<Config, ConfigError> {
    let counted = || tree.rules().filter(|rule| !rule.unlimited);
    let each = (COUNTERS / counted().count().max(1)).max(FEWEST);
    let common = |shadow: bool| {
        let mut common = Map::new();
        match store {
            Some(_) => common.insert("store".into(), "envoy".into()),
            None => common.insert("max_keys".into(), each.into()),
        };
        common.insert("keyed".into(), true.into());
        if shadow || all_shadow {
            common.insert("mode".into(), "shadow".into());
        }
        common
    };
    let mut limits = Map::new();
    let mut windows = BTreeSet::new();
    for rule in counted() {
        let mut limit = common(rule.shadow);
        windows.insert(rule.rate.window());
        limit.append(&mut window(rule.rate.limit, rule.rate.window()));
        if rule.rate.limit == 0 {
            limit.insert("tiers".into(), json!({ "by": BY, "default": "blocked" }));
        }
        limits.insert(rule.id.clone(), limit.into());
    }
    for seconds in override_windows {
        let mut limit = common(false);
        limit.remove("mode");
        limit.append(&mut window(MOST, *seconds));
        limits.insert(override_limit(*seconds), limit.into());
    }
    for seconds in windows {
        let mut limit = common(false);
        limit.append(&mut window(1, seconds));
        limits.insert(over_limit_mark(seconds), limit.into());
    }
    let mut file = Map::new();
    if let Some(url) = store {
        file.insert(
            "stores".into(),
            json!({ "envoy": { "url": url, "deadline": DEADLINE } }),
        );
    }
    file.insert("limits".into(), limits.into());
    let text = Value::from(file).to_string();
    Config::from_str("the limits of Envoy", &text, Format::Json)
}

/// The tier is passed with each decision rather than read from a request.
const BY: &str = "constant:-";

/// A window of the engine. A limit of 0 has one too: its tier blocks all requests.
fn window(limit: u32, seconds: u64) -> Map<String, Value> {
    let mut window = Map::new();
    window.insert("kind".into(), "fixed_window".into());
    window.insert("limit".into(), limit.max(1).into());
    window.insert("window".into(), format!("{seconds}s").into());
    window.insert("align".into(), "epoch".into());
    window
}
