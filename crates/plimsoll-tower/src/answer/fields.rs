use http::header::{Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use plimsoll::Denied;

use super::limit_status::{LimitStatus, Unit, seconds};
use super::structured::{LARGEST, Line, Out, value};

pub(super) static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) static X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(super) static X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(super) static X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A choice of the header fields that describe limits to callers.
///
/// | choice | fields |
/// |---|---|
/// | [`STANDARD`](Self::STANDARD) | `RateLimit` and `RateLimit-Policy` |
/// | [`X`](Self::X) | `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` |
/// | [`ALL`](Self::ALL) | both |
/// | [`NONE`](Self::NONE) | none |
///
/// ```
/// use http::HeaderMap;
/// use plimsoll::Standing;
/// use plimsoll_tower::answer::{Fields, LimitStatus};
///
/// let mut headers = HeaderMap::new();
/// Fields::ALL.write(&mut headers, &[LimitStatus::new("api", Standing::new(10, 7))]);
/// assert_eq!(headers["ratelimit-policy"], r#""api";q=10"#);
/// assert_eq!(headers["ratelimit"], r#""api";r=7"#);
/// assert_eq!(headers["x-ratelimit-remaining"], "7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    pub(super) standard: bool,
    pub(super) x: bool,
}

impl Fields {
    /// No fields.
    pub const NONE: Self = Self {
        standard: false,
        x: false,
    };

    /// `RateLimit` and `RateLimit-Policy`, as the IETF drafts define them.
    pub const STANDARD: Self = Self {
        standard: true,
        x: false,
    };

    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, which most clients know.
    pub const X: Self = Self {
        standard: false,
        x: true,
    };

    /// Both families.
    pub const ALL: Self = Self {
        standard: true,
        x: true,
    };

    /// Adds the fields to the headers of a response.
    ///
    /// If an inner layer has already written its limits, `RateLimit` and `RateLimit-Policy` are extended: they are
    /// lists. `X-RateLimit-*` holds one limit, and describes the one with the fewest units left.
    pub fn write(self, headers: &mut HeaderMap, statuses: &[LimitStatus<'_>]) {
        if self.standard {
            if let Some(policies) = rate_limit_policy(statuses) {
                headers.append(&RATE_LIMIT_POLICY, policies);
            }
            if let Some(limits) = rate_limit(statuses) {
                headers.append(&RATE_LIMIT, limits);
            }
        }
        if let (true, Some(status)) = (self.x, tightest(statuses)) {
            write_x(headers, status, || integer(status.standing.limit));
        }
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// The value of `RateLimit-Policy`: the quota of each limit. `None` without limits.
pub(super) fn rate_limit_policy(statuses: &[LimitStatus<'_>]) -> Option<HeaderValue> {
    list(statuses, |out, status| {
        out.string(status.name);
        out.parameter(b";q=", status.standing.limit);
        if status.unit != Unit::Requests {
            out.put(b";qu=");
            out.string(status.unit.as_str());
        }
        if let Some(window) = status.window() {
            out.parameter(b";w=", window);
        }
    })
}

/// The value of `RateLimit`: the units left of each limit, and the time until there are more. `None` without limits.
pub(super) fn rate_limit(statuses: &[LimitStatus<'_>]) -> Option<HeaderValue> {
    list(statuses, |out, status| {
        out.string(status.name);
        left(out, status);
    })
}

/// The units left, and the time until there are more.
pub(super) fn left(out: &mut (impl Out + ?Sized), status: &LimitStatus<'_>) {
    out.parameter(b";r=", status.remaining());
    if let Some(more_after) = status.more_after() {
        out.parameter(b";t=", more_after);
    }
}

fn list(
    statuses: &[LimitStatus<'_>],
    item: impl Fn(&mut dyn Out, &LimitStatus<'_>),
) -> Option<HeaderValue> {
    if statuses.is_empty() {
        return None;
    }
    let write = |out: &mut dyn Out| {
        for (index, status) in statuses.iter().enumerate() {
            if index > 0 {
                out.put(b", ");
            }
            item(out, status);
            if let Some(key) = status.partition {
                out.put(b";pk=");
                out.byte_sequence(key);
            }
        }
    };
    let mut line = Line::default();
    write(&mut line);
    match line.text() {
        Some(text) => HeaderValue::from_bytes(text).ok(),
        None => value(write),
    }
}

/// The limit with the fewest units left; among equals, the one that takes longest to refill.
fn tightest<'n, 'a>(statuses: &'n [LimitStatus<'a>]) -> Option<&'n LimitStatus<'a>> {
    statuses.iter().min_by_key(|status| {
        let reset = status.reset().unwrap_or(u64::MAX);
        (status.remaining(), std::cmp::Reverse(reset))
    })
}

pub(super) fn write_x(
    headers: &mut HeaderMap,
    status: &LimitStatus<'_>,
    limit: impl FnOnce() -> HeaderValue,
) {
    let remaining = status.remaining();
    let told_before = match headers.entry(&X_REMAINING) {
        Entry::Vacant(place) => {
            place.insert(integer(remaining));
            false
        }
        Entry::Occupied(mut shown) => {
            let number = shown
                .get()
                .to_str()
                .ok()
                .and_then(|shown| shown.parse().ok());
            if number.is_some_and(|shown: u64| shown <= remaining) {
                return;
            }
            shown.insert(integer(remaining));
            true
        }
    };
    headers.insert(&X_LIMIT, limit());
    match status.reset() {
        Some(reset) => {
            headers.insert(&X_RESET, integer(reset));
        }
        None if told_before => {
            headers.remove(&X_RESET);
        }
        None => {}
    }
}

/// Returns the number of seconds after which a retry is worthwhile, for `Retry-After`. `None` if that time is unknown, or a
/// retry can never succeed.
///
/// The number is rounded up, so that a client that waits this long does not retry too early. It is never less than the
/// `t` that `RateLimit` has for the refusing limit in `statuses`.
///
/// ```
/// use plimsoll::{Denied, Moment, Reason};
/// use plimsoll_tower::answer::retry_seconds;
/// use std::time::Duration;
///
/// let now = Moment::ORIGIN;
/// let denied = Denied::new(Reason::Exhausted).with_ready_at(now, Some(now.plus(Duration::from_millis(1200))));
/// assert_eq!(retry_seconds(&denied, &[]), Some(2));
/// ```
#[must_use]
pub fn retry_seconds(denied: &Denied, statuses: &[LimitStatus<'_>]) -> Option<u64> {
    let name = denied.limiter().unwrap_or(LimitStatus::UNNAMED);
    let announced = statuses.iter().filter(|status| status.name == name);
    let latest = announced.filter_map(LimitStatus::more_after).max();
    let retry = seconds(denied.retry_after()?).max(latest.unwrap_or(0));
    Some(retry.min(LARGEST))
}

/// Writes `Retry-After`.
pub(crate) fn retry_after(headers: &mut HeaderMap, seconds: u64) {
    headers.insert(RETRY_AFTER, integer(seconds));
}

/// A number as the value of a field.
pub(super) fn integer(number: u64) -> HeaderValue {
    if let Some(digits) = small(number) {
        return HeaderValue::from_static(digits);
    }
    let mut buffer = itoa::Buffer::new();
    // Digits are always a valid value.
    HeaderValue::from_str(buffer.format(number.min(LARGEST)))
        .unwrap_or_else(|_| HeaderValue::from_static("0"))
}

/// The digits of a small number, from a static table: most limits, and most times to wait, need no allocation.
fn small(number: u64) -> Option<&'static str> {
    let number = usize::try_from(number).ok().filter(|it| *it < SMALL)?;
    let zeros = usize::from(number < 100) + usize::from(number < 10);
    DIGITS.get(3 * number + zeros..3 * number + 3)
}

const SMALL: usize = 1000;

/// `000001002…`
static DIGITS: &str = {
    const ALL: [u8; 3 * SMALL] = {
        let mut all = [b'0'; 3 * SMALL];
        let mut at = 0;
        while at < all.len() {
            let number = at / 3;
            let digit = match at % 3 {
                0 => number / 100,
                1 => number / 10 % 10,
                _ => number % 10,
            };
            all[at] = b"0123456789"[digit];
            at += 1;
        }
        all
    };
    match std::str::from_utf8(&ALL) {
        Ok(digits) => digits,
        Err(_) => "",
    }
};
