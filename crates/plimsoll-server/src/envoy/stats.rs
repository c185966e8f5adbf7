//! Statistics with the names of the reference server. The number of names is bounded, because names come from requests.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of names. Further names are counted as `other`.
const MOST: usize = 10_000;
/// The share of a limit at which a counter is near it. `f32` as in the reference server, so that the rounding is the same.
const NEAR: f32 = 0.8;

type Table<T> = RwLock<HashMap<String, Arc<T>>>;

/// All statistics.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    limits: Table<LimitStats>,
    unknown_domains: Table<AtomicU64>,
    pub(super) config_load_success: AtomicU64,
    pub(super) config_load_error: AtomicU64,
    pub(super) global_shadow_mode: AtomicU64,
    pub(super) redis_error: AtomicU64,
    pub(super) service_error: AtomicU64,
    pub(super) requests: AtomicU64,
}

/// The statistics of a limit.
#[derive(Debug, Default)]
pub(super) struct LimitStats {
    total_hits: AtomicU64,
    over_limit: AtomicU64,
    near_limit: AtomicU64,
    within_limit: AtomicU64,
    shadow_mode: AtomicU64,
}

pub(super) fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl LimitStats {
    /// Counts `hits` on top of `before`. `over` is whether they exceed the limit, `shadow` whether it is in shadow mode.
    pub(super) fn count(&self, limit: u64, before: u64, hits: u64, (over, shadow): (bool, bool)) {
        let near = near(limit);
        let after = before.saturating_add(hits);
        add(&self.total_hits, hits);
        if !over {
            add(&self.within_limit, hits);
            add(&self.near_limit, after.saturating_sub(near.max(before)));
            return;
        }
        let over = after.saturating_sub(limit.max(before)).max(1);
        add(&self.over_limit, over);
        add(&self.near_limit, limit.saturating_sub(near.max(before)));
        if shadow {
            add(&self.shadow_mode, over);
        }
    }

    fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("total_hits", get(&self.total_hits)),
            ("over_limit", get(&self.over_limit)),
            ("near_limit", get(&self.near_limit)),
            // This server has no local cache.
            ("over_limit_with_local_cache", 0),
            ("within_limit", get(&self.within_limit)),
            ("shadow_mode", get(&self.shadow_mode)),
        ]
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "rounded down, as the reference server does it"
)]
fn near(limit: u64) -> u64 {
    (limit as f32 * NEAR).floor() as u64
}

impl Stats {
    /// The statistics of a limit or of an override.
    pub(super) fn limit(&self, name: &str) -> Arc<LimitStats> {
        find(&self.limits, name)
    }

    pub(super) fn unknown_domain(&self, domain: &str) {
        add(&find(&self.unknown_domains, domain), 1);
    }

    /// One line for each statistic, sorted by name.
    pub(crate) fn lines(&self) -> String {
        let mut lines = Vec::new();
        for (name, stats) in self
            .limits
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            let name = plain(name);
            for (count, is) in stats.each() {
                lines.push(format!("ratelimit.service.rate_limit.{name}.{count}: {is}"));
            }
        }
        let domains = self.unknown_domains.read();
        for (domain, count) in domains.unwrap_or_else(PoisonError::into_inner).iter() {
            let (domain, count) = (plain(domain), get(count));
            lines.push(format!(
                "ratelimit.service.rate_limit.{domain}.domain_not_found: {count}"
            ));
        }
        for (name, is) in self.service() {
            lines.push(format!("{name}: {is}"));
        }
        lines.sort_unstable();
        lines.join("\n") + "\n"
    }

    fn service(&self) -> [(&'static str, u64); 6] {
        [
            (
                "ratelimit.service.config_load_success",
                get(&self.config_load_success),
            ),
            (
                "ratelimit.service.config_load_error",
                get(&self.config_load_error),
            ),
            (
                "ratelimit.service.global_shadow_mode",
                get(&self.global_shadow_mode),
            ),
            (
                "ratelimit.service.call.should_rate_limit.redis_error",
                get(&self.redis_error),
            ),
            (
                "ratelimit.service.call.should_rate_limit.service_error",
                get(&self.service_error),
            ),
            (
                "ratelimit_server.ShouldRateLimit.total_requests",
                get(&self.requests),
            ),
        ]
    }

    /// The statistics in the text format of Prometheus, with the labels of the reference server: a domain and up to two keys.
    pub(crate) fn prometheus(&self) -> String {
        let mut sums: HashMap<(&'static str, String), u64> = HashMap::new();
        for (name, stats) in self
            .limits
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            let mut parts = name.splitn(4, '.').map(escaped);
            let mut labels = String::new();
            for label in ["domain", "key1", "key2"] {
                if let Some(part) = parts.next() {
                    let comma = if labels.is_empty() { "" } else { "," };
                    let _ = write!(labels, "{comma}{label}=\"{part}\"");
                }
            }
            // Deeper descriptors are added to their ancestor at the second level.
            for (count, is) in stats.each() {
                *sums.entry((count, labels.clone())).or_default() += is;
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable();
        let mut text = String::new();
        let mut last = "";
        for ((count, labels), is) in sums {
            if count != last {
                let _ = writeln!(text, "# TYPE ratelimit_service_rate_limit_{count} counter");
                last = count;
            }
            let _ = writeln!(
                text,
                "ratelimit_service_rate_limit_{count}{{{labels}}} {is}"
            );
        }
        for (name, is) in [
            ("config_load_success", &self.config_load_success),
            ("config_load_error", &self.config_load_error),
        ] {
            let name = format!("ratelimit_service_{name}");
            let _ = writeln!(text, "# TYPE {name} counter\n{name} {}", get(is));
        }
        let name = "ratelimit_service_should_rate_limit_error";
        let _ = writeln!(text, "# TYPE {name} counter");
        for (kind, is) in [
            ("redis_error", &self.redis_error),
            ("service_error", &self.service_error),
        ] {
            let _ = writeln!(text, "{name}{{err_type=\"{kind}\"}} {}", get(is));
        }
        let name = "ratelimit_service_total_requests";
        let requests = get(&self.requests);
        let _ = writeln!(
            text,
            "# TYPE {name} counter\n{name}{{grpc_method=\"ShouldRateLimit\"}} {requests}"
        );
        text
    }
}

fn find<T: Default>(table: &Table<T>, name: &str) -> Arc<T> {
    let known = table.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(stats) = known.get(name) {
        return Arc::clone(stats);
    }
    drop(known);
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    let name = match table.len() >= MOST && !table.contains_key(name) {
        true => "other",
        false => name,
    };
    Arc::clone(table.entry(name.to_owned()).or_default())
}

/// Replaces the separators of statsd and line breaks in a name.
fn plain(name: &str) -> String {
    name.replace(|c: char| matches!(c, ':' | '|') || c.is_control(), "_")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_split_into_what_is_within_near_and_over() {
        // Limit, count before and hits; then the hits over, near and within the limit.
        let cases = [
            ((5, 2, 5), (2, 1, 0)),
            ((5, 0, 4), (0, 0, 4)),
            ((5, 0, 5), (0, 1, 5)),
            ((5, 4, 1), (0, 1, 1)),
            ((5, 5, 3), (3, 0, 0)),
            ((5, 9, 3), (3, 0, 0)),
            ((20, 11, 5), (0, 0, 5)),
            ((20, 15, 3), (0, 2, 3)),
            ((0, 0, 1), (1, 0, 0)),
        ];
        for ((limit, before, hits), (over, near, within)) in cases {
            let stats = LimitStats::default();
            stats.count(limit, before, hits, (before + hits > limit, false));
            let is = (
                get(&stats.over_limit),
                get(&stats.near_limit),
                get(&stats.within_limit),
            );
            assert_eq!(is, (over, near, within), "{limit} {before} {hits}");
        }
    }

    #[test]
    fn names_are_bounded() {
        let stats = Stats::default();
        for name in 0..MOST + 100 {
            stats
                .limit(&name.to_string())
                .count(1, 0, 1, (false, false));
        }
        let known = stats.limits.read().expect("no thread has panicked");
        assert_eq!(known.len(), MOST + 1);
        assert_eq!(get(&known["other"].total_hits), 100);
    }
}
