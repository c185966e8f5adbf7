//! The limits of a tree as a configuration of the engine: windows aligned to 1970, with a counter for each key.

use std::collections::BTreeSet;

use plimsoll_config::{Config, ConfigError, Format};
use plimsoll_tower::keys::bounded;
use serde_json::{Map, Value, json};

use super::tree::Tree;

/// The most that is counted of a descriptor which brings its own limit.
pub(super) const MOST: u32 = u32::MAX;
/// How many counters there are at most, of all limits together.
const COUNTERS: usize = 4_000_000;
/// How long a store may take. Envoy gives up long before that, unless it is configured otherwise.
const DEADLINE: &str = "1s";
/// How many counters each limit may have at least.
const FEWEST: usize = 1_000;

/// The limit that counts descriptors which bring their own, in windows of so many seconds. It is as high as can be: what
/// they bring is compared with what it has counted, since it may be another one each time.
pub(super) fn own(window: u64) -> String {
    format!("envoy-own-{window}")
}

/// The seconds of the window of such a limit.
pub(super) fn own_window(limit: &str) -> Option<u64> {
    limit.strip_prefix("envoy-own-")?.parse().ok()
}

/// The limit that notes which counters are above their limits, of windows of so many seconds.
pub(super) fn over(window: u64) -> String {
    format!("envoy-over-{window}")
}

/// What a limit is called in the engine: the same as long as its place in the tree is the same.
pub(super) fn id(path: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    let shown: String = path.chars().filter(plain).take(24).collect();
    let digest = bounded(path.into(), 0);
    format!("{shown}-{}", digest.trim_start_matches('~'))
}

/// The limits of a tree, and of descriptors that bring their own, in windows of so many seconds.
pub(super) fn config(
    tree: &Tree,
    own_windows: &BTreeSet<u64>,
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
    for seconds in own_windows {
        let mut limit = common(false);
        limit.remove("mode");
        limit.append(&mut window(MOST, *seconds));
        limits.insert(own(*seconds), limit.into());
    }
    for seconds in windows {
        let mut limit = common(false);
        limit.append(&mut window(1, seconds));
        limits.insert(over(seconds), limit.into());
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

/// Tiers are named by who asks.
const BY: &str = "constant:-";

/// A window of the engine. What is never granted has one too: it is blocked by its tier.
fn window(limit: u32, seconds: u64) -> Map<String, Value> {
    let mut window = Map::new();
    window.insert("kind".into(), "fixed_window".into());
    window.insert("limit".into(), limit.max(1).into());
    window.insert("window".into(), format!("{seconds}s").into());
    window.insert("align".into(), "epoch".into());
    window
}
