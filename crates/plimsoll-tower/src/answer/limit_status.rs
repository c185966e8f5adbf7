use std::time::Duration;

use plimsoll::{Denied, Standing};

/// The unit that a limit counts, as `RateLimit-Policy` names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Requests. The field omits it, because it is the default.
    #[default]
    Requests,
    /// Bytes of content.
    ContentBytes,
    /// Concurrent requests.
    ConcurrentRequests,
}

impl Unit {
    /// Returns the name of the unit in `RateLimit-Policy`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::ContentBytes => "content-bytes",
            Self::ConcurrentRequests => "concurrent-requests",
        }
    }
}

/// The state of one limit, as header fields describe it to the caller.
///
/// ```
/// use plimsoll::Standing;
/// use http::HeaderMap;
/// use plimsoll_tower::answer::{Fields, LimitStatus};
/// use std::time::Duration;
///
/// let standing = Standing::new(100, 50)
///     .window(Duration::from_secs(60))
///     .more_after(Duration::from_millis(29_001));
/// let statuses = [LimitStatus::new("burst", standing)];
/// let mut headers = HeaderMap::new();
/// Fields::STANDARD.write(&mut headers, &statuses);
/// assert_eq!(headers["ratelimit-policy"], r#""burst";q=100;w=60"#);
/// assert_eq!(headers["ratelimit"], r#""burst";r=50;t=30"#);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitStatus<'a> {
    pub(super) name: &'a str,
    pub(super) standing: Standing,
    pub(super) unit: Unit,
    pub(super) partition: Option<&'a [u8]>,
}

impl<'a> LimitStatus<'a> {
    /// The name that header fields use for a limit without a name.
    pub const UNNAMED: &'static str = "default";

    /// Describes the limit with this name by its standing: the limit, the units left, and the times.
    ///
    /// Clients see the name. Bytes that a header cannot contain (anything but printable ASCII) are written as `%` and
    /// two hexadecimal digits for each byte of UTF-8.
    #[must_use]
    pub fn new(name: &'a str, standing: Standing) -> Self {
        let unit = match standing.returns {
            true => Unit::ConcurrentRequests,
            false => Unit::Requests,
        };
        Self {
            name,
            standing,
            unit,
            partition: None,
        }
    }

    /// Returns the name of the limit.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Describes the limit that refused.
    #[must_use]
    pub fn of(denied: &'a Denied) -> Self {
        let (limit, remaining) = (denied.limit(), denied.remaining());
        let standing = Standing::new(limit, remaining)
            .more_after(denied.retry_after())
            .reset(denied.reset());
        Self::new(denied.limiter().unwrap_or(Self::UNNAMED), standing)
    }

    /// Sets the unit. Default: requests, or concurrent requests for a limit whose permits are returned.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use plimsoll::Standing;
    /// use plimsoll_tower::answer::{Fields, LimitStatus, Unit};
    ///
    /// let bytes = LimitStatus::new("upload", Standing::new(1 << 20, 4096)).unit(Unit::ContentBytes);
    /// let mut headers = HeaderMap::new();
    /// Fields::STANDARD.write(&mut headers, &[bytes]);
    /// assert_eq!(headers["ratelimit-policy"], r#""upload";q=1048576;qu="content-bytes""#);
    /// ```
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the partition key, `pk`, which identifies a part of a limit, if every caller has its own part.
    ///
    /// Clients see it. A partition key that is derived from a key must not reveal the key.
    #[must_use]
    pub const fn partition(mut self, key: &'a [u8]) -> Self {
        self.partition = Some(key);
        self
    }

    /// The window, if it is a whole number of seconds. Other windows have no representation, and a rounded one would be
    /// wrong.
    pub(super) fn window(&self) -> Option<u64> {
        let window = self.standing.window?;
        (window.subsec_nanos() == 0 && window > Duration::ZERO).then_some(window.as_secs())
    }

    /// The parts that are the same in all responses: the limit, its window, and whether its permits are returned.
    pub(super) fn promise(&self) -> (u64, Option<Duration>, bool) {
        let Standing {
            limit,
            window,
            returns,
            ..
        } = self.standing;
        (limit, window, returns)
    }

    /// The units left; 0 if unknown.
    pub(super) fn remaining(&self) -> u64 {
        self.standing.remaining.unwrap_or(0)
    }

    /// The seconds until more is available, rounded up.
    pub(super) fn more_after(&self) -> Option<u64> {
        self.standing.more_after.map(seconds)
    }

    /// The seconds until the whole limit is available again, rounded up.
    pub(super) fn reset(&self) -> Option<u64> {
        let full = self.remaining() >= self.standing.limit;
        self.standing.reset.map(seconds).or(full.then_some(0))
    }
}

/// Whole seconds, rounded up: a client that retries a moment too early would be refused again.
pub(super) fn seconds(span: Duration) -> u64 {
    span.as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0))
}
