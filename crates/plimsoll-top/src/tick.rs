//! What the admin port says each second. What a server does not say is left at its default: servers differ in what they have.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One object of the stream.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tick {
    /// The limits that were asked for, in the order of the file.
    pub limits: Vec<Limit>,
    /// How many there are.
    pub limits_total: usize,
    /// Leases that are held; a server has them.
    pub leases: Option<u64>,
    /// Requests that upstreams are busy with; a gateway has them.
    pub in_flight: Option<u64>,
    /// Connections of clients.
    pub connections: Option<u64>,
    /// For how long the server has been up.
    pub uptime_ms: Option<u64>,
    /// What came of reading the file again, the last time.
    pub reload: Option<Reload>,
    /// Limits that proxies share.
    pub quotas: Option<Quotas>,
    /// Servers behind a gateway.
    pub upstreams: Vec<Upstream>,
    /// The version of the server.
    pub version: String,
}

/// A limit as it stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// Whether it is a rate or a limit on what is under way.
    pub kind: Option<String>,
    /// Whether each key has a limit of its own.
    pub keyed: bool,
    /// How many keys are known, if it has keys.
    pub keys: Option<u64>,
    /// Whether it is enforced: `enforce`, `shadow` or `off`.
    pub mode: String,
    /// Its number.
    pub limit: u64,
    /// How much of it is in use.
    pub in_use: u64,
    /// The share of it that is in use.
    pub saturation: f64,
    /// How many wait.
    pub waiting: u64,
    /// How many may wait.
    pub queue_bound: u64,
    /// What was granted since the start.
    pub granted_total: u64,
    /// What was refused since the start, by reason.
    pub refused: BTreeMap<String, u64>,
    /// What would have been refused in shadow mode.
    pub would_refuse: u64,
    /// Limits of tiers, by their names.
    pub tiers: BTreeMap<String, Tier>,
    /// What an adaptive limit has learned.
    pub learned: Option<Learned>,
}

impl Limit {
    /// What was refused since the start, for all reasons.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Whether refusals are counted and nobody is refused.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.mode == "shadow"
    }

    /// One word for what it is.
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
    /// Its number.
    pub limit: u64,
    /// How much of it is in use.
    pub in_use: u64,
    /// What was granted since the start.
    pub granted_total: u64,
    /// What was refused since the start.
    pub denied_total: u64,
}

/// What an adaptive limit has learned.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Learned {
    /// Why it changed or stayed the last time.
    pub decision: String,
    /// How long work takes without a queue.
    pub baseline_ms: Option<f64>,
    /// How long it takes now.
    pub latency_ms: Option<f64>,
}

/// What came of reading the file again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Reload {
    /// What changed, one thing a line.
    pub text: String,
    /// What was wrong with the file: then nothing changed.
    pub errors: Option<Vec<String>>,
}

/// A server behind a gateway.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Upstream {
    /// The name of its pool.
    pub pool: String,
    /// Where it is.
    pub address: String,
    /// Requests that it is busy with.
    pub in_flight: u64,
    /// Requests that it answered.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Whether it is asked.
    pub state: String,
}

/// Limits that proxies share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Quotas {
    /// How many proxies there are.
    pub streams: u64,
    /// How many limits, by key, they share.
    pub buckets: u64,
    /// Those of them that are shown.
    pub shown: Vec<Quota>,
}

/// A limit that proxies share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Quota {
    /// Its name.
    pub limit: String,
    /// The key that it is for, masked.
    pub key: Option<String>,
    /// What each proxy has of it.
    pub shares: Vec<Shared>,
}

/// What one proxy has of a limit, and wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Shared {
    /// The number of its connection.
    pub stream: Option<u64>,
    /// What it has.
    pub has: Option<Share>,
    /// What it wants.
    pub wants_per_second: Option<f64>,
    /// In how many seconds what it has runs out.
    pub expires_in: Option<f64>,
    /// Whether it has left.
    pub gone: bool,
    /// Requests that it let through.
    pub allowed: u64,
    /// Requests that it refused.
    pub denied: u64,
}

/// So many requests in so many seconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Share {
    /// Requests.
    pub tokens: u64,
    /// Seconds.
    pub seconds: u64,
}

/// The keys of a limit that come most often, masked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Keys {
    /// By what they used.
    pub used: Vec<Key>,
    /// By how often they were refused.
    pub refused: Vec<Key>,
}

/// A key, and how often it came, at most `error` too high.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Key {
    /// The key, masked.
    pub key: String,
    /// How often it came.
    pub count: u64,
    /// By how much that may be too high.
    pub error: u64,
}
