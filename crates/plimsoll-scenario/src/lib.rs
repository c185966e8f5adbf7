//! Tests for limits, written as scenarios: steps against a limiter, and the expected answers.
//!
//! A scenario file is YAML or JSON. It runs against the real limiters of [`plimsoll`] on a manual clock, so that an hour takes no
//! time and the result does not depend on the machine.
//!
//! ```
//! let text = "
//! - name: a burst of three is smoothed
//!   limiter: { kind: token_bucket, burst: 1, refill: 1, every: 1s, queue: { bound: 2 } }
//!   steps:
//!     - { try: 1, expect: granted }
//!     - { acquire: 1, as: a, expect: pending }
//!     - { acquire: 1, as: b, expect: pending }
//!     - { acquire: 1, expect: { result: denied, reason: queue_full, retry_after: 3s } }
//!     - { at: 1s, settled: { a: granted, b: pending } }
//!     - { at: 2s, settled: { b: granted }, available: 0, queued: 0 }
//! ";
//! let report = plimsoll_scenario::run_str("limits.yaml", text)?;
//! assert_eq!(report.to_string(), "1 passed, 0 failed");
//! # Ok::<(), plimsoll_scenario::FileError>(())
//! ```
//!
//! A step with `events` lists the events since the last step with `events`, by name and in order, or `none`. Limits on `memory`
//! and `cpu` run on a simulated machine with a tebibyte of memory: `sample: 90%` or `sample: 800B` sets the used memory, or the
//! processor time since the last sample, and measures it. For `partitions` the `key` of a step is the name of a partition, for
//! `policies` an operation and its caller, such as `login|192.0.2.1`.
//!
//! ```
//! let text = "
//! - name: work waits for memory
//!   limiter: { kind: memory, hard_limit: 80%, spike: 0B, queue: { bound: 1 } }
//!   steps:
//!     - { sample: 80% }
//!     - { acquire: 1, as: a, expect: pending }
//!     - { at: 1s, sample: 79%, settled: { a: granted } }
//! - name: the events of a queue
//!   limiter: { kind: concurrency, limit: 1, queue: { bound: 1 } }
//!   steps:
//!     - { try: 1, as: a, events: [processing, in_use_changed] }
//!     - { acquire: 1, expect: pending, events: [enqueued, queued_changed] }
//! ";
//! let report = plimsoll_scenario::run_str("limits.yaml", text)?;
//! assert_eq!(report.to_string(), "2 passed, 0 failed");
//! # Ok::<(), plimsoll_scenario::FileError>(())
//! ```
//!
//! A scenario can also be a trace: an [adaptive algorithm](plimsoll::adaptive), its samples, and the limit after each.
//!
//! ```
//! let text = "
//! - name: a failure costs a tenth
//!   limit: { algorithm: aimd, initial: 30 }
//!   columns: [start_ns, rtt_ns, in_flight, dropped, limit_after]
//!   samples:
//!     - [0, 10000000, 30, 0, 31]
//!     - [1000000, 10000000, 31, 1, 27]
//! ";
//! let report = plimsoll_scenario::run_str("limits.yaml", text)?;
//! assert_eq!(report.to_string(), "1 passed, 0 failed");
//! # Ok::<(), plimsoll_scenario::FileError>(())
//! ```
//!
//! Or it sends requests to the limits of a [configuration](https://docs.rs/plimsoll-config), through the layer that a server
//! puts around its handler (feature `config`):
//!
//! ```yaml
//! - name: a client has five logins in ten minutes
//!   config: limits.yaml              # seen from this file; limits in stores run in memory
//!   steps:
//!     # `status` is the response of the handler; five failed logins use up the limit.
//!     - { request: POST /login from 10.0.0.7, status: 401, times: 5, expect: allowed, remaining: { logins: 0 } }
//!     - { request: POST /login from 10.0.0.7, expect: { refused_by: logins, retry_after: 2m, status: 429 } }
//!     - { request: POST /login from 10.0.0.8, expect: allowed }
//!     - { at: 2m, request: POST /login from 10.0.0.7, expect: allowed }
//!     # A limit by its name, as a program or `plimsoll serve` would ask it.
//!     - { ask: per_token, key: anna, cost: 3, expect: allowed, remaining: 57 }
//! ```
//!
//! A request has `headers`, a `body` (a text, or a number of bytes), `claims` and `descriptors`; its response a `status`, an
//! `answer` (the body), `answer_headers` and `usage`. With `as: NAME` it stays in flight until `finish: NAME`. A request that waits
//! in a queue is `pending`; `settled: { NAME: allowed }` is its expected result.
//!
//! In a Rust test, call [`assert_file`]. The program `plimsoll test` runs the same files.
//!
//! With the feature `redis` the same files run against limits in a real Redis, with the same expectations: see `run_file_on`.
//!
//! A file is read strictly. An unknown field, an unknown unit, a name that no step defined, an expectation that can never be
//! met: each is a [`FileError`] with its place, so that no scenario passes for the wrong reason. Parts of the format that no
//! limiter implements yet are counted as not supported, never as passed.

mod read;
mod report;
mod run;
mod schema;
mod spec;

use std::path::Path;

use plimsoll_spec::{Read, text_of};

pub use plimsoll_spec::FileError;
pub use report::{Failure, Report, ScenarioResult, ScenarioStatus, Tally};
pub use schema::schema;

#[cfg(feature = "redis")]
pub use run::redis::Place as RedisPlace;

/// Runs every scenario of a file.
///
/// ```no_run
/// let report = plimsoll_scenario::run_file("limits.yaml")?;
/// for line in report.failures() {
///     eprintln!("{line}");
/// }
/// # Ok::<(), plimsoll_scenario::FileError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the file cannot be read or is not a scenario file. A scenario that fails is not an error: see
/// [`Report::tally`].
pub fn run_file(path: impl AsRef<Path>) -> Result<Report, FileError> {
    let path = path.as_ref();
    run_str(path, &text_of(path)?)
}

/// Runs every scenario of `text`. `path` is used in messages, and as the base of the paths in `config`.
///
/// # Errors
///
/// Returns an error with the line and the reason if the text is not that of a scenario file.
///
/// ```
/// let text = "- { name: n, limiter: { kind: concurrency, limit: 1 }, steps: [{ tri: 1 }] }";
/// let error = plimsoll_scenario::run_str("limits.yaml", text).unwrap_err();
/// assert!(error.to_string().contains("did you mean `try`?"), "{error}");
/// ```
pub fn run_str(path: impl AsRef<Path>, text: &str) -> Result<Report, FileError> {
    let path = path.as_ref();
    run_each(path, text, |scenario| run::run(scenario, path))
}

/// Runs every scenario of a file against limits in Redis. Scenarios that Redis cannot hold are skipped, and
/// [counted](Tally::not_held).
///
/// # Errors
///
/// Returns an error if the file cannot be opened or is not a scenario file.
#[cfg(feature = "redis")]
pub fn run_file_on(path: impl AsRef<Path>, store: &RedisPlace) -> Result<Report, FileError> {
    let path = path.as_ref();
    let text = text_of(path)?;
    run_each(path, &text, |scenario| run::run_on(scenario, store))
}

fn run_each(
    path: &Path,
    text: &str,
    run: impl Fn(&spec::Scenario) -> Read<ScenarioStatus>,
) -> Result<Report, FileError> {
    let scenarios = read::scenarios(text).map_err(|problem| FileError::problem(path, problem))?;
    let results = scenarios.iter().enumerate().map(|(index, scenario)| {
        let status = run(scenario).map_err(|problem| {
            let problem = read::at_top(problem.under_index(index));
            FileError::problem(path, read::in_scenario(problem, Some(&scenario.name)))
        })?;
        Ok(ScenarioResult::new(
            &scenario.name,
            scenario.place.line,
            status,
        ))
    });
    Ok(Report::new(path, results.collect::<Result<_, _>>()?))
}

/// Runs a file in a test, and panics with the report unless every scenario passed.
///
/// ```no_run
/// #[test]
/// fn the_limits_hold() {
///     plimsoll_scenario::assert_file("tests/limits.yaml");
/// }
/// ```
///
/// # Panics
///
/// Panics if the file cannot be read, or a scenario failed or is not supported.
#[track_caller]
pub fn assert_file(path: impl AsRef<Path>) {
    let report = match run_file(path) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    };
    let tally = report.tally();
    assert!(tally.failed() + tally.not_supported() == 0, "{report}");
}
