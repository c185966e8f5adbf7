//! The report of a replay.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::BadLine;
use crate::log::LogSummary;

/// The results of a replay, as data. It serializes as the JSON of `plimsoll replay --json`; fields may be added.
///
/// Fractions are parts of 1. Moments are in UTC, such as `2026-11-15T12:00:01.250Z`. Keys are masked unless
/// [`Replay::reveal_keys`](crate::Replay::reveal_keys) is set. [`text`](Self::text), [`json`](Self::json) and [`html`](Self::html) format
/// the report.
///
/// ```no_run
/// use plimsoll_config::Config;
/// use plimsoll_replay::{Logs, Replay};
///
/// let report = Replay::new(Config::from_file("limits.yaml")?, Logs::of(["access.log"])).run()?;
/// for limit in &report.limits {
///     println!("{}: {:.2} % of {} refused", limit.limit, 100.0 * limit.refused_share, limit.asked);
/// }
/// std::fs::write("report.html", report.html())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The configuration file with the limits.
    pub config: String,
    /// The number of lines and requests of each log.
    pub logs: Vec<LogSummary>,
    /// Examples of lines that could not be read, up to three of each log.
    pub bad_lines: Vec<BadLine>,
    /// Number of requests whose lines came later than the [window](crate::Logs::window): they were replayed at the time of the request
    /// before them.
    pub late_lines: u64,
    /// The arrival of the first request.
    pub from: String,
    /// The arrival of the last request.
    pub until: String,
    /// The time from the first to the last request, in seconds.
    pub seconds: f64,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests without a route in the configuration. They are admitted.
    pub without_route: u64,
    /// Number of requests that would have been admitted.
    pub admitted: u64,
    /// Number of requests that would have been refused.
    pub refused: u64,
    /// `refused` as a fraction of `requests`.
    pub refused_share: f64,
    /// Number of requests that the log shows as refused: their status is 429 or 503.
    pub refused_then: u64,
    /// Number of refused requests that the log shows as refused too.
    pub refused_again: u64,
    /// The waits of requests in queues.
    pub waits: WaitReport,
    /// Each limit, in the order of the file.
    pub limits: Vec<LimitReport>,
    /// Each route, in the order of the file.
    pub routes: Vec<RouteReport>,
    /// Admitted and refused over time.
    pub series: SeriesReport,
    /// The differences to another configuration, if [`Replay::against`](crate::Replay::against) is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstReport>,
    /// Peaks of keys, and suggested limits, if [`Replay::suggest`](crate::Replay::suggest) is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<SuggestReport>,
    /// Remarks on how far the figures can be trusted, such as missing durations or keys in the log.
    pub notes: Vec<String>,
}

/// The waits of requests in queues, in seconds. Percentiles are rounded up by at most an eighth.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WaitReport {
    /// Number of requests that waited, including those that were refused afterwards.
    pub requests: u64,
    /// The median wait.
    pub p50: f64,
    /// The 99th percentile of the wait.
    pub p99: f64,
    /// The longest wait.
    pub most: f64,
}

/// The results of one limit.
///
/// `refused` counts the requests for which this limit was the binding one, among all limits of the request; `alone_refused` counts the
/// requests that the limit would refuse if it were the only one.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitReport {
    /// The name of the limit.
    pub limit: String,
    /// A short description of the limit, such as `5/s, burst 10`.
    pub is: String,
    /// Whether the limit is in shadow mode, where it counts and refuses nothing.
    pub shadow: bool,
    /// Number of requests that the limit applies to.
    pub asked: u64,
    /// Number of requests that the limit refused, or would have refused in shadow mode.
    pub refused: u64,
    /// `refused` as a fraction of `asked`.
    pub refused_share: f64,
    /// Number of refused requests that the log shows as refused too.
    pub refused_again: u64,
    /// The refused requests, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Number of requests that the limit would refuse without the other limits.
    pub alone_refused: u64,
    /// `alone_refused` as a fraction of the requests that the limit applies to.
    pub alone_share: f64,
    /// Number of requests of its routes to which the limit does not apply, because the log does not have its key.
    pub without_key: u64,
    /// Number of distinct keys. 0 if the limit has no keys.
    pub keys: u64,
    /// Number of distinct keys that were refused at least once.
    pub refused_keys: u64,
    /// Whether the numbers of keys are exact. Otherwise they are estimates, with a standard error of 1.6 %.
    pub keys_exact: bool,
    /// The first request that it refused.
    pub first: Option<FirstRefusal>,
    /// The keys with the most refusals.
    pub top: Vec<KeyReport>,
}

/// The first request that a limit refused.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FirstRefusal {
    /// The arrival of the request.
    pub at: String,
    /// The log file of the request.
    pub file: String,
    /// The number of its line in the log, from 1.
    pub line: u64,
    /// The method and the path of the request, without the query.
    pub request: String,
    /// The status in the log. 0 if the log has none.
    pub status: u16,
    /// The key of the request, masked unless keys are revealed. Empty if the limit has no keys.
    pub key: String,
}

/// A key and its number of refusals, as a bounded estimate: the true number is between `count - error` and `count`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeyReport {
    /// The limit of the key.
    pub limit: String,
    /// The key, masked unless keys are revealed.
    pub key: String,
    /// The upper bound of the number.
    pub count: u64,
    /// The largest possible excess of `count` over the true number.
    pub error: u64,
}

/// The results of one route.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RouteReport {
    /// The name of the route, or its first pattern.
    pub route: String,
    /// Number of requests of the route.
    pub requests: u64,
    /// Number of refused requests of the route.
    pub refused: u64,
    /// `refused` as a fraction of `requests`.
    pub refused_share: f64,
    /// The refused requests, by the limit that refused them.
    pub by: BTreeMap<String, u64>,
}

/// Counts over time, in at most 480 spans of equal length.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SeriesReport {
    /// The start of the first span.
    pub from: String,
    /// The start of the first span, in seconds since the Unix epoch.
    pub from_epoch: i64,
    /// The length of a span, in seconds.
    pub seconds: i64,
    /// Number of admitted requests in each span.
    pub admitted: Vec<u64>,
    /// Number of refused requests in each span.
    pub refused: Vec<u64>,
    /// Number of refused requests in each span, by the limit that refused them.
    pub by_limit: BTreeMap<String, Vec<u64>>,
}

/// The differences between the decisions of two configurations.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AgainstReport {
    /// The file of the other configuration.
    pub config: String,
    /// Number of requests that both admit.
    pub both_admitted: u64,
    /// Number of requests that both refuse.
    pub both_refused: u64,
    /// Requests that the other configuration admits and this one refuses.
    pub to_refused: FlipReport,
    /// Requests that the other configuration refuses and this one admits.
    pub to_admitted: FlipReport,
}

/// Requests that two configurations decide differently, in one direction.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FlipReport {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests, by the limit that refuses them.
    pub limits: BTreeMap<String, u64>,
    /// Number of requests, by route.
    pub routes: BTreeMap<String, u64>,
    /// The keys with the most requests.
    pub top: Vec<KeyReport>,
}

/// Peaks of keys and suggested limits. Each suggestion was replayed against the logs.
///
/// ```no_run
/// use plimsoll_config::Config;
/// use plimsoll_replay::{Logs, Replay};
///
/// let config = Config::from_file("limits.yaml")?;
/// let report = Replay::new(config, Logs::of(["access.log"])).suggest(0.001).run()?;
/// for limit in report.suggestions.iter().flat_map(|suggestions| &suggestions.limits) {
///     println!("{}: {}, suggested {:?}", limit.limit, limit.now, limit.suggested);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SuggestReport {
    /// The fraction of requests that a suggested limit may refuse.
    pub share: f64,
    /// Each limit that applies to at least one request.
    pub limits: Vec<SuggestedLimit>,
}

/// The suggestion for one limit.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SuggestedLimit {
    /// The name of the limit.
    pub limit: String,
    /// Percentiles, over the keys, of the cost of each key in its busiest span of a second, ten seconds and a minute.
    pub peaks: Vec<PeakReport>,
    /// A short description of the limit in the configuration.
    pub now: String,
    /// The fraction of requests that the limit in the configuration refuses without the other limits.
    pub now_share: f64,
    /// The smallest limit of the same form that refuses at most the fraction. `None` if its kind does not depend on one number, or none
    /// was found.
    pub suggested: Option<String>,
    /// The number in the suggested limit.
    pub number: Option<u64>,
    /// The fraction of requests that the suggested limit refuses without the other limits.
    pub suggested_share: Option<f64>,
}

/// Percentiles over keys: the cost of each key in its busiest span of one length.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PeakReport {
    /// The length of the spans, in seconds.
    pub seconds: i64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The value of the busiest key.
    pub most: u64,
}

/// `part` as a fraction of `whole`.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The presentation of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// The number of keys of each limit.
    pub(crate) top: usize,
    /// Whether keys are shown unmasked.
    pub(crate) reveal: bool,
}
