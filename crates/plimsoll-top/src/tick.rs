//! The JSON objects that the admin port sends each second. Fields that a server does not send have their defaults.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One object of the stream: the state of a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tick {
    /// The requested limits, in the order of the file.
    pub limits: Vec<Limit>,
    /// The number of all limits.
    pub limits_total: usize,
    /// The number of leases, in a server.
    pub leases: Option<u64>,
    /// The number of requests in flight at upstreams, in a gateway.
    pub in_flight: Option<u64>,
    /// The number of client connections.
    pub connections: Option<u64>,
    /// The time since the start of the server.
    pub uptime_ms: Option<u64>,
    /// The result of the last reload.
    pub reload: Option<Reload>,
    /// The limits that proxies share.
    pub quotas: Option<Quotas>,
    /// Servers behind a gateway.
    pub upstreams: Vec<Upstream>,
    /// The version of the server.
    pub version: String,
}

/// The state of a limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limit {
    /// The name of the limit.
    pub name: String,
    /// The kind of its limiter: a rate or a concurrency limit.
    pub kind: Option<String>,
    /// Whether each key has a state of its own.
    pub keyed: bool,
    /// The number of keys, if it has keys.
    pub keys: Option<u64>,
    /// Whether it is enforced: `enforce`, `shadow` or `off`.
    pub mode: String,
    /// The limit.
    pub limit: u64,
    /// The usage.
    pub in_use: u64,
    /// The usage as a fraction of the limit.
    pub saturation: f64,
    /// The number of waiters.
    pub waiting: u64,
    /// The bound of the queue.
    pub queue_bound: u64,
    /// The grants since the start.
    pub granted_total: u64,
    /// The refusals since the start, by reason.
    pub refused: BTreeMap<String, u64>,
    /// The refusals that it would have made, if it were enforced.
    pub would_refuse: u64,
    /// The tiers, by name.
    pub tiers: BTreeMap<String, Tier>,
    /// The state of an adaptive limit.
    pub learned: Option<Learned>,
}

impl Limit {
    /// The refusals since the start, for all reasons.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Whether it is in shadow mode.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.mode == "shadow"
    }

    /// The kind as one word, for tables.
    #[must_use]
    pub fn word(&self) -> &str {
        match self.learned {
            Some(_) => "adaptive",
            None => self.kind.as_deref().unwrap_or("unlimited"),
        }
    }
}

/// The limit of a tier.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tier {
    /// The limit.
    pub limit: u64,
    /// The usage.
    pub in_use: u64,
    /// The grants since the start.
    pub granted_total: u64,
    /// The refusals since the start.
    pub denied_total: u64,
}

/// The state of an adaptive limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Learned {
    /// The reason of its last decision.
    pub decision: String,
    /// The latency without queueing.
    pub baseline_ms: Option<f64>,
    /// The present latency.
    pub latency_ms: Option<f64>,
}

/// The result of a reload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Reload {
    /// The changes, one per line.
    pub text: String,
    /// The mistakes in the file. Nothing was changed then.
    pub errors: Option<Vec<String>>,
}

/// A server behind a gateway.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Upstream {
    /// The name of the server's pool.
    pub pool: String,
    /// The address of the server.
    pub address: String,
    /// Requests in flight at the server.
    pub in_flight: u64,
    /// Requests that the server answered.
    pub answered: u64,
    /// Requests of the server that failed.
    pub failed: u64,
    /// The state of the server: whether it receives requests.
    pub state: String,
}

/// Limits that proxies share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Quotas {
    /// The number of proxies.
    pub streams: u64,
    /// The number of limits, by key, that they share.
    pub buckets: u64,
    /// The limits that are shown.
    pub shown: Vec<Quota>,
}

/// A limit that proxies share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Quota {
    /// The name of the limit.
    pub limit: String,
    /// The key of the limit, masked.
    pub key: Option<String>,
    /// The share of each proxy.
    pub shares: Vec<Shared>,
}

/// The share of one proxy, and its demand.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Shared {
    /// The number of its connection.
    pub stream: Option<u64>,
    /// The share of the proxy.
    pub has: Option<Share>,
    /// The demand of the proxy, in requests per second.
    pub wants_per_second: Option<f64>,
    /// The time until the share expires, in seconds.
    pub expires_in: Option<f64>,
    /// Whether the proxy has disconnected.
    pub gone: bool,
    /// Requests that the proxy admitted.
    pub allowed: u64,
    /// Requests that the proxy refused.
    pub denied: u64,
}

/// A number of requests per number of seconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Share {
    /// Requests.
    pub tokens: u64,
    /// Seconds.
    pub seconds: u64,
}

/// The most frequent keys of a limit, masked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Keys {
    /// The keys with the highest usage.
    pub used: Vec<Key>,
    /// The keys with the most refusals.
    pub refused: Vec<Key>,
}

/// A key and the number of its requests, which is at most `error` too high.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Key {
    /// The key, masked.
    pub key: String,
    /// The number of its requests.
    pub count: u64,
    /// The largest possible excess of `count`.
    pub error: u64,
}
