use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode, header};

use super::fields::{items, number};

/// What the answer of a partner says about its limits.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use plimsoll_tower::partner::Told;
/// use std::time::{Duration, SystemTime};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""burst";r=0;t=7, "daily";r=120;t=3600"#.parse()?);
/// headers.insert("ratelimit-policy", r#""burst";q=10;w=10, "daily";q=1000;w=86400"#.parse()?);
/// let told = Told::read(&headers, SystemTime::now());
/// assert_eq!(told.limits.len(), 2);
/// assert_eq!((told.limits[0].quota, told.limits[0].remaining), (Some(10), Some(0)));
///
/// // Nothing is left of one of them.
/// assert_eq!(told.pause(StatusCode::OK), Some(Duration::from_secs(7)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Told {
    /// After how long to come back, by `Retry-After`. Zero if it names a moment in the past.
    pub retry_after: Option<Duration>,
    /// What is said of single limits, at most 16 of them.
    pub limits: Vec<ToldLimit>,
}

/// What is said of one limit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ToldLimit {
    /// What the partner calls it; empty where it has no name.
    pub name: String,
    /// How much the limit allows.
    pub quota: Option<u64>,
    /// In how much time.
    pub window: Option<Duration>,
    /// How much is left.
    pub remaining: Option<u64>,
    /// After how long there is more.
    pub reset: Option<Duration>,
}

/// Whoever says more than this is not listened to.
const MOST_LIMITS: usize = 16;

/// Numbers above this are seconds since 1970, and far above it milliseconds: nobody says to wait for thirty years.
const EPOCH_SECONDS: u64 = 1_000_000_000;
const EPOCH_MILLIS: u64 = 1_000_000_000_000;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Families of three fields: the limit, what remains, and when there is more.
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

impl Told {
    /// Reads the fields of an answer that came at `now`. What cannot be read counts as not said.
    ///
    /// A date in `Retry-After` is compared with the `Date` of the answer, if it has one, so that it does not matter whose
    /// clock is wrong.
    #[must_use]
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let mut told = Self {
            retry_after: lines(headers, &header::RETRY_AFTER)
                .filter_map(|value| retry_after(value, sent_at(headers, now)))
                .max(),
            limits: Vec::new(),
        };
        for list in lines(headers, &RATE_LIMIT) {
            told.add_current(list);
        }
        for list in lines(headers, &RATE_LIMIT_POLICY) {
            for item in items(list) {
                if let Some(limit) = told.limit(item.text) {
                    limit.quota = item.number("q").or(limit.quota);
                    limit.window = item.number("w").map(Duration::from_secs).or(limit.window);
                }
            }
        }
        for [limit, remaining, reset] in &TRIPLES {
            let first = |name| lines(headers, name).next();
            // Some write the window beside it: `100, 100;w=60`.
            let quota = first(limit).and_then(|list| number(items(list).next()?.text));
            let remaining = first(remaining).and_then(number);
            let reset = first(reset).and_then(number).map(|reset| span(reset, now));
            if remaining.is_some() || reset.is_some() || quota.is_some() {
                told.limits.push(ToldLimit {
                    quota,
                    remaining,
                    reset,
                    ..ToldLimit::default()
                });
            }
        }
        told
    }

    /// How long not to ask, after an answer of this status: as `Retry-After` says, or until there is more of a limit of which
    /// nothing is left. `None` if there is no reason to pause.
    #[must_use]
    pub fn pause(&self, status: StatusCode) -> Option<Duration> {
        let used_up = self
            .limits
            .iter()
            .filter(|limit| limit.remaining == Some(0));
        let until_more = used_up.filter_map(|limit| limit.reset).max();
        // Of a redirection or a resource that is being made it says something else.
        let is_refusal = status.is_client_error() || status.is_server_error();
        let told = self.retry_after.filter(|_| is_refusal).max(until_more);
        told.filter(|span| *span > Duration::ZERO)
    }

    /// The limit of this name, if there is room for it.
    fn limit(&mut self, name: &str) -> Option<&mut ToldLimit> {
        let known = self.limits.iter().position(|limit| limit.name == name);
        if known.is_none() && self.limits.len() < MOST_LIMITS {
            self.limits.push(ToldLimit {
                name: name.to_owned(),
                ..ToldLimit::default()
            });
        }
        self.limits.iter_mut().find(|limit| limit.name == name)
    }

    /// What `RateLimit` says: `"name";r=5;t=10`, or as older drafts have it, `limit=10, remaining=5, reset=10`.
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

/// When the answer was sent, by its own word or by ours.
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

/// After how long: in seconds, or at a second or a millisecond since 1970.
fn span(reset: u64, now: SystemTime) -> Duration {
    let at = match reset {
        ..EPOCH_SECONDS => return Duration::from_secs(reset),
        EPOCH_SECONDS..EPOCH_MILLIS => Duration::from_secs(reset),
        EPOCH_MILLIS.. => Duration::from_millis(reset),
    };
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH);
    at.saturating_sub(since_epoch.unwrap_or_default())
}
