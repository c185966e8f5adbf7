use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode, header};

use super::fields::{items, number};

/// The rate-limit headers of an upstream response.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use plimsoll_tower::partner::UpstreamLimits;
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""burst";r=0;t=7, "daily";r=120;t=3600"#.parse()?);
/// headers.insert("ratelimit-policy", r#""burst";q=10;w=10, "daily";q=1000;w=86400"#.parse()?);
/// let upstream = UpstreamLimits::read(&headers, SystemTime::now());
/// assert_eq!(upstream.limits.len(), 2);
/// assert_eq!((upstream.limits[0].quota, upstream.limits[0].remaining), (Some(10), Some(0)));
///
/// // The limit `burst` is used up for 7 s.
/// assert_eq!(upstream.pause(StatusCode::OK), Some(Duration::from_secs(7)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct UpstreamLimits {
    /// The delay in `Retry-After`. Zero if the field has a date in the past. The maximum if the field is repeated.
    pub retry_after: Option<Duration>,
    /// The single limits, at most 16 from `RateLimit` and `RateLimit-Policy`, and one for each family of `…-Limit`, `…-Remaining`
    /// and `…-Reset`.
    pub limits: Vec<UpstreamLimit>,
}

/// One limit of an upstream response. A field that the response does not have is `None`.
///
/// ```
/// use http::HeaderMap;
/// use plimsoll_tower::partner::UpstreamLimits;
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-ratelimit-limit", "60".parse()?);
/// headers.insert("x-ratelimit-remaining", "59".parse()?);
/// headers.insert("x-ratelimit-reset", "30".parse()?);
/// let limit = &UpstreamLimits::read(&headers, SystemTime::now()).limits[0];
/// assert_eq!((limit.quota, limit.remaining), (Some(60), Some(59)));
/// assert_eq!((limit.reset, limit.window), (Some(Duration::from_secs(30)), None));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct UpstreamLimit {
    /// The name of the limit; empty if it has none.
    pub name: String,
    /// The number of units that the limit allows per window.
    pub quota: Option<u64>,
    /// The length of the window.
    pub window: Option<Duration>,
    /// The number of units left.
    pub remaining: Option<u64>,
    /// The time until more units are available.
    pub reset: Option<Duration>,
}

/// Further limits of a response are ignored.
const MAX_LIMITS: usize = 16;

/// A reset above this is a time in seconds since 1970, and far above it a time in milliseconds: as a delay it would be
/// thirty years.
const EPOCH_SECONDS: u64 = 1_000_000_000;
const EPOCH_MILLIS: u64 = 1_000_000_000_000;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Families of three fields: the limit, the units left, and the reset.
const TRIPLES: [[HeaderName; 3]; 2] = [
    [
        HeaderName::from_static("x-ratelimit-limit"),
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderName::from_static("x-ratelimit-reset"),
    ],
    [
        HeaderName::from_static("ratelimit-limit"),
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ],
];

impl UpstreamLimits {
    /// Reads the fields of a response that arrived at `now`. A field that cannot be parsed is treated as missing.
    ///
    /// A date in `Retry-After` is compared with the `Date` of the response, if it has one, so that clock differences do not
    /// matter. A reset in `X-RateLimit-Reset` or `RateLimit-Reset` may be a number of seconds, or a time in seconds or milliseconds
    /// since 1970.
    #[must_use]
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let mut upstream = Self {
            retry_after: lines(headers, &header::RETRY_AFTER)
                .filter_map(|value| retry_after(value, sent_at(headers, now)))
                .max(),
            limits: Vec::new(),
        };
        for list in lines(headers, &RATE_LIMIT) {
            upstream.add_current(list);
        }
        for list in lines(headers, &RATE_LIMIT_POLICY) {
            for item in items(list) {
                if let Some(limit) = upstream.limit(item.text) {
                    limit.quota = item.number("q").or(limit.quota);
                    limit.window = item.number("w").map(Duration::from_secs).or(limit.window);
                }
            }
        }
        for [limit, remaining, reset] in &TRIPLES {
            let first = |name| lines(headers, name).next();
            // Some servers append the window: `100, 100;w=60`.
            let quota = first(limit).and_then(|list| number(items(list).next()?.text));
            let remaining = first(remaining).and_then(number);
            let reset = first(reset).and_then(number).map(|reset| span(reset, now));
            if remaining.is_some() || reset.is_some() || quota.is_some() {
                upstream.limits.push(UpstreamLimit {
                    quota,
                    remaining,
                    reset,
                    ..UpstreamLimit::default()
                });
            }
        }
        upstream
    }

    /// Returns the time to pause after a response with this status: the delay in `Retry-After` if the status is a client or server
    /// error, or the time until more is available of a limit that is used up, whichever is longer. `None` if there is no reason to
    /// pause.
    #[must_use]
    pub fn pause(&self, status: StatusCode) -> Option<Duration> {
        let used_up = self
            .limits
            .iter()
            .filter(|limit| limit.remaining == Some(0));
        let until_more = used_up.filter_map(|limit| limit.reset).max();
        // In a redirection, or for a resource that is being created, the field has another meaning.
        let is_refusal = status.is_client_error() || status.is_server_error();
        let upstream = self.retry_after.filter(|_| is_refusal).max(until_more);
        upstream.filter(|span| *span > Duration::ZERO)
    }

    /// The limit with this name. `None` if it is new and there are too many.
    fn limit(&mut self, name: &str) -> Option<&mut UpstreamLimit> {
        let known = self.limits.iter().position(|limit| limit.name == name);
        if known.is_none() && self.limits.len() < MAX_LIMITS {
            self.limits.push(UpstreamLimit {
                name: name.to_owned(),
                ..UpstreamLimit::default()
            });
        }
        self.limits.iter_mut().find(|limit| limit.name == name)
    }

    /// Reads `RateLimit`: `"name";r=5;t=10`, or in older drafts `limit=10, remaining=5, reset=10`.
    fn add_current(&mut self, list: &str) {
        for item in items(list) {
            if let Some((key, value)) = item.text.split_once('=') {
                let Some(value) = number(value) else { continue };
                let Some(limit) = self.limit("") else {
                    continue;
                };
                match key.trim() {
                    "limit" => limit.quota = Some(value),
                    "remaining" => limit.remaining = Some(value),
                    "reset" => limit.reset = Some(Duration::from_secs(value)),
                    _ => {}
                }
            } else if let Some(limit) = self.limit(item.text) {
                limit.remaining = item.number("r").or(limit.remaining);
                limit.reset = item.number("t").map(Duration::from_secs).or(limit.reset);
            }
        }
    }
}

/// The lines of a field that are text.
fn lines<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).into_iter();
    lines.filter_map(|line| line.to_str().ok())
}

/// The time when the response was sent: its `Date`, or else the time of arrival.
fn sent_at(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    let date = lines(headers, &header::DATE).next();
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    date.unwrap_or(now)
}

fn retry_after(value: &str, sent_at: SystemTime) -> Option<Duration> {
    if let Some(seconds) = number(value) {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    Some(at.duration_since(sent_at).unwrap_or_default())
}

/// The time until a reset, given in seconds, or as a second or a millisecond since 1970.
fn span(reset: u64, now: SystemTime) -> Duration {
    let at = match reset {
        ..EPOCH_SECONDS => return Duration::from_secs(reset),
        EPOCH_SECONDS..EPOCH_MILLIS => Duration::from_secs(reset),
        EPOCH_MILLIS.. => Duration::from_millis(reset),
    };
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH);
    at.saturating_sub(since_epoch.unwrap_or_default())
}
