//! Traffic as it was: the moments of an access log.

use std::path::Path;

use jiff::Timestamp;
use jiff::fmt::strtime;
use plimsoll_spec::FileError;
use plimsoll_spec::{Place, Problem, quote};
use rand::RngExt;

use crate::chance::{Chance, generator};
use crate::num::NANOS;

/// How servers write the moment of a request between brackets.
const COMMON: &str = "%d/%b/%Y:%H:%M:%S %z";

/// When requests came, from the first on.
///
/// Each line of the log is a request. Its moment is what stands in brackets, as in the common and the combined log format
/// (`[15/Nov/2026:12:00:01 +0000]`), or else the first word, as seconds since the epoch (`1795089601.250`, nginx' `$msec`) or
/// as a timestamp (`2026-11-15T12:00:01.25Z`). Empty lines and lines that begin with `#` are passed over.
///
/// ```
/// use plimsoll_sim::AccessLog;
///
/// let log = AccessLog::from_text("access.log", "\
/// 127.0.0.1 - - [15/Nov/2026:12:00:01 +0000] \"GET / HTTP/1.1\" 200 512
/// 127.0.0.1 - - [15/Nov/2026:12:00:03 +0000] \"GET / HTTP/1.1\" 200 512
/// ")?;
/// assert_eq!(log.len(), 2);
///
/// let error = AccessLog::from_text("access.log", "hello").unwrap_err();
/// assert_eq!(error.to_string(), "access.log:1:1: expected a request with its moment, found \"hello\"");
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// Nanoseconds since the first, in order.
    moments: Vec<Logged>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Logged {
    at: u64,
    /// Whether it is known only to the second.
    rough: bool,
}

impl AccessLog {
    /// Reads a log.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is empty, or a line has no moment.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, FileError> {
        // However long it is, and whatever else stands in its lines.
        let bytes = std::fs::read(&path).map_err(|error| {
            let place = Place::START;
            let message = format!("cannot be read: {error}");
            FileError::problem(path.as_ref(), Problem::new(place, message))
        })?;
        Self::from_text(&path, &String::from_utf8_lossy(&bytes))
    }

    /// Reads the text of a log; `path` is for messages.
    ///
    /// # Errors
    ///
    /// If it is empty, or a line has no moment.
    pub fn from_text(path: impl AsRef<Path>, text: &str) -> Result<Self, FileError> {
        let mut found = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = Place::new(index + 1, 1);
            let (nanos, rough) = moment(line).ok_or_else(|| {
                let start: String = line.chars().take(40).collect();
                let message = format!(
                    "expected a request with its moment, found {}",
                    quote(&start)
                );
                FileError::problem(path.as_ref(), Problem::new(place, message))
            })?;
            found.push((nanos, rough));
        }
        let Some(first) = found.iter().map(|(nanos, _)| *nanos).min() else {
            let start = Place::START;
            let problem = Problem::new(start, "expected requests, one a line, found nothing");
            return Err(FileError::problem(path.as_ref(), problem));
        };
        let since_first = |(nanos, rough): (i128, bool)| Logged {
            at: u64::try_from(nanos - first).unwrap_or(u64::MAX),
            rough,
        };
        let mut moments: Vec<Logged> = found.into_iter().map(since_first).collect();
        moments.sort_unstable();
        Ok(Self { moments })
    }

    /// How many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether there is none; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// The arrivals of one run. Requests that are known only to the second are spread over it by chance.
    pub(crate) fn arrivals(&self, seed: u64) -> Vec<u64> {
        let mut rng = generator(seed, Chance::Arrivals);
        let spread = |logged: &Logged| {
            let within = if logged.rough {
                rng.random_range(0..NANOS)
            } else {
                0
            };
            logged.at.saturating_add(within)
        };
        let mut arrivals: Vec<u64> = self.moments.iter().map(spread).collect();
        arrivals.sort_unstable();
        arrivals
    }
}

/// The moment of a line in nanoseconds since the epoch, and whether it is known only to the second.
fn moment(line: &str) -> Option<(i128, bool)> {
    let bracketed = line
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .and_then(|(text, _)| strtime::parse(COMMON, text).ok()?.to_timestamp().ok());
    if let Some(timestamp) = bracketed {
        return Some((timestamp.as_nanosecond(), true));
    }
    let word = line.split_whitespace().next()?;
    if let Ok(timestamp) = word.parse::<Timestamp>() {
        let nanos = timestamp.as_nanosecond();
        return Some((nanos, nanos % i128::from(NANOS) == 0 && !word.contains('.')));
    }
    let (seconds, fraction) = word.split_once('.').unwrap_or((word, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: u32 = seconds.parse().ok()?;
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    let sum = i128::from(seconds) * i128::from(NANOS) + i128::from(nanos);
    Some((sum, fraction.is_empty()))
}
