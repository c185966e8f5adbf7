//! What came of a replay.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::log::{BadLine, LogSummary};

/// What came of a replay, as data. It serialises as the JSON of `plimsoll replay --json`; fields may be added.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The file of the limits.
    pub config: String,
    /// What was read of each log.
    pub logs: Vec<LogSummary>,
    /// Lines that could not be read, some of each log.
    pub bad_lines: Vec<BadLine>,
    /// Requests whose places had passed when their lines were read: they were taken as coming then.
    pub late_lines: u64,
    /// When the first request came.
    pub from: String,
    /// When the last one came.
    pub until: String,
    /// How many seconds lie between them.
    pub seconds: f64,
    /// How many requests there are.
    pub requests: u64,
    /// Those that no route of the file is for. They are admitted.
    pub without_route: u64,
    /// Those that would have been admitted.
    pub admitted: u64,
    /// Those that would have been refused.
    pub refused: u64,
    /// The refused as a share of all.
    pub refused_share: f64,
    /// Those that were answered with 429 or 503 then.
    pub refused_then: u64,
    /// The refused that were answered with 429 or 503 then.
    pub refused_again: u64,
    /// Those that would have waited in a queue.
    pub waits: WaitReport,
    /// Each limit, in the order of the file.
    pub limits: Vec<LimitReport>,
    /// Each route, in the order of the file.
    pub routes: Vec<RouteReport>,
    /// Admitted and refused over time.
    pub series: SeriesReport,
    /// What another configuration decides differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstReport>,
    /// Peaks of keys, and the smallest limits that refuse little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<SuggestReport>,
    /// What has to be known to read the figures.
    pub notes: Vec<String>,
}

/// How long requests waited.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WaitReport {
    /// How many waited, also of those that were refused after it.
    pub requests: u64,
    /// Half of them waited no longer, in seconds.
    pub p50: f64,
    /// 99 of a hundred waited no longer.
    pub p99: f64,
    /// The longest wait.
    pub most: f64,
}

/// One limit.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitReport {
    /// Its name.
    pub limit: String,
    /// What it is, in the words of a file.
    pub is: String,
    /// Whether it only counts.
    pub shadow: bool,
    /// Requests that asked it.
    pub asked: u64,
    /// Requests that it refused, or would have in shadow mode.
    pub refused: u64,
    /// The refused as a share of the asked.
    pub refused_share: f64,
    /// The refused that were answered with 429 or 503 then.
    pub refused_again: u64,
    /// The refused, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// What it would refuse if no other limit stood beside it.
    pub alone_refused: u64,
    /// That as a share of the asked.
    pub alone_share: f64,
    /// Requests of its routes that did not ask it, because the log does not have its key.
    pub without_key: u64,
    /// How many different keys asked it; 0 if it has none.
    pub keys: u64,
    /// How many of them it refused at least once.
    pub refused_keys: u64,
    /// Whether the numbers of keys are exact. Otherwise they are estimates, with a standard error of 1.6 %.
    pub keys_exact: bool,
    /// The first request that it refused.
    pub first: Option<FirstRefusal>,
    /// The keys that it refused most.
    pub top: Vec<KeyReport>,
}

/// The first request that a limit refused.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FirstRefusal {
    /// When it came.
    pub at: String,
    /// The log.
    pub file: String,
    /// Its line there.
    pub line: u64,
    /// Its method and path.
    pub request: String,
    /// The status it was answered with then.
    pub status: u16,
    /// Its key, masked unless it was asked for.
    pub key: String,
}

/// A key and how often something happened to it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeyReport {
    /// The limit whose key it is.
    pub limit: String,
    /// The key, masked unless it was asked for.
    pub key: String,
    /// How often, at most.
    pub count: u64,
    /// By how much that may be too much.
    pub error: u64,
}

/// One route.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RouteReport {
    /// Its name, or its first pattern.
    pub route: String,
    /// Requests that took it.
    pub requests: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// That as a share.
    pub refused_share: f64,
    /// The refused, by limit.
    pub by: BTreeMap<String, u64>,
}

/// Counts over time.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SeriesReport {
    /// When the first span begins.
    pub from: String,
    /// The same in seconds since the epoch.
    pub from_epoch: i64,
    /// How many seconds a span has.
    pub seconds: i64,
    /// Admitted in each span.
    pub admitted: Vec<u64>,
    /// Refused in each span.
    pub refused: Vec<u64>,
    /// Refused in each span, by limit.
    pub by_limit: BTreeMap<String, Vec<u64>>,
}

/// What two configurations decide differently.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AgainstReport {
    /// The file of the other limits.
    pub config: String,
    /// Admitted by both.
    pub both_admitted: u64,
    /// Refused by both.
    pub both_refused: u64,
    /// Admitted by the other, refused now.
    pub to_refused: FlipReport,
    /// Refused by the other, admitted now.
    pub to_admitted: FlipReport,
}

/// Requests that change in one direction.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FlipReport {
    /// How many.
    pub requests: u64,
    /// By the limit that refuses them.
    pub limits: BTreeMap<String, u64>,
    /// By route.
    pub routes: BTreeMap<String, u64>,
    /// The keys with most of them.
    pub top: Vec<KeyReport>,
}

/// Peaks of keys, and what limits would do.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SuggestReport {
    /// The share that may be refused.
    pub share: f64,
    /// Each limit that was asked.
    pub limits: Vec<SuggestedLimit>,
}

/// What is suggested for one limit.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SuggestedLimit {
    /// The limit.
    pub limit: String,
    /// Percentiles over its keys of what each asked for in its busiest span.
    pub peaks: Vec<PeakReport>,
    /// What it is now, and what share it refuses alone.
    pub now: String,
    /// The share that it refuses alone.
    pub now_share: f64,
    /// The smallest limit that refuses no more than the share, with the same form; `None` if its kind has no one number.
    pub suggested: Option<String>,
    /// The number that was found.
    pub number: Option<u64>,
    /// The share that it refuses alone, as replayed.
    pub suggested_share: Option<f64>,
}

/// Peaks over spans of one length.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PeakReport {
    /// The length of the spans, in seconds.
    pub seconds: i64,
    /// Half of the keys never asked for more in one of them.
    pub p50: u64,
    /// Nine of ten keys.
    pub p90: u64,
    /// 99 of a hundred.
    pub p99: u64,
    /// 999 of a thousand.
    pub p999: u64,
    /// The busiest key.
    pub most: u64,
}

/// A share of two counts.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// What is shown of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// How many of each limit.
    pub(crate) top: usize,
    /// Whether as they are.
    pub(crate) reveal: bool,
}
