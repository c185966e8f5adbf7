use std::time::Duration;

use plimsoll::{Denied, Standing};

/// What a limit counts, in the words of `RateLimit-Policy`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Requests. Not written, because it goes without saying.
    #[default]
    Requests,
    /// Bytes of content.
    ContentBytes,
    /// Requests at the same time.
    ConcurrentRequests,
}

impl Unit {
    /// The word for it in `RateLimit-Policy`.
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
    /// The name of a limit that has none.
    pub const UNNAMED: &'static str = "default";

    /// The limit of this name promises so much, and so much is left.
    ///
    /// The name is for callers to read. What cannot stand in a header (anything but printable ASCII) is
    /// written as `%` and two hexadecimal digits for each byte of its UTF-8.
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

    /// The name of the limit.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// What a refusal says of the limit it came from.
    #[must_use]
    pub fn of(denied: &'a Denied) -> Self {
        let (limit, remaining) = (denied.limit(), denied.remaining());
        let standing = Standing::new(limit, remaining)
            .more_after(denied.retry_after())
            .reset(denied.reset());
        Self::new(denied.limiter().unwrap_or(Self::UNNAMED), standing)
    }

    /// Says what is counted. Unless said it is requests, or requests at the same time for a limit whose permits are returned.
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Says which part of a limit is meant, where every caller has its own: `pk`.
    ///
    /// The caller reads it. If it is made from a key, it must not tell the key.
    #[must_use]
    pub const fn partition(mut self, key: &'a [u8]) -> Self {
        self.partition = Some(key);
        self
    }

    /// The window in whole seconds. Others cannot be written down, and a rounded one would be wrong.
    pub(super) fn window(&self) -> Option<u64> {
        let window = self.standing.window?;
        (window.subsec_nanos() == 0 && window > Duration::ZERO).then_some(window.as_secs())
    }

    /// What is the same in all responses: the limit, its window, and whether its permits are returned.
    pub(super) fn promise(&self) -> (u64, Option<Duration>, bool) {
        let Standing {
            limit,
            window,
            returns,
            ..
        } = self.standing;
        (limit, window, returns)
    }

    /// How much is left. Of a limit of which that is not known, nothing is promised.
    pub(super) fn remaining(&self) -> u64 {
        self.standing.remaining.unwrap_or(0)
    }

    /// In how many seconds there is more, rounded up.
    pub(super) fn more_after(&self) -> Option<u64> {
        self.standing.more_after.map(seconds)
    }

    /// In how many seconds everything is there again, rounded up.
    pub(super) fn reset(&self) -> Option<u64> {
        let full = self.remaining() >= self.standing.limit;
        self.standing.reset.map(seconds).or(full.then_some(0))
    }
}

/// Whole seconds, rounded up: who comes a moment too early is refused again.
pub(super) fn seconds(span: Duration) -> u64 {
    span.as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0))
}
