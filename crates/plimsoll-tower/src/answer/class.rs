use http::StatusCode;
use plimsoll::{Denied, Reason};

/// The class of a refusal, which determines status code and problem type.
///
/// | class | HTTP | gRPC | reasons |
/// |---|---|---|---|
/// | `Quota` | 429 | `RESOURCE_EXHAUSTED` | the caller's own limit is used up; locked out for exceeding it |
/// | `TooLarge` | 413 | `RESOURCE_EXHAUSTED` | the cost is above the limit |
/// | `NoKey` | 400 | `INVALID_ARGUMENT` | the request has no key |
/// | `Misconfigured` | 500 | `INTERNAL` | the program does not record the key |
/// | `Capacity` | 503 | `UNAVAILABLE` | everything else |
///
/// A request that is too large is always refused, and 429 would invite its sender to retry: so it is 413, without a
/// `Retry-After`. In gRPC, messages that are too large already have the code `RESOURCE_EXHAUSTED`.
///
/// A limit for all requests that is used up is a quota if the time to retry is known. If it depends on other requests
/// that return their permits, as with a concurrency limit, the server is full. A limit of the caller's own is always
/// its quota, even if it is a concurrency limit or a full queue: 503 would tell clients and proxies that the server is
/// overloaded because of one caller ([`of_caller`](Self::of_caller)).
///
/// ```
/// use plimsoll::{Denied, Reason};
/// use plimsoll_tower::answer::Class;
///
/// let full = Denied::new(Reason::QueueFull);
/// assert_eq!(Class::of(&full), Class::Capacity);
/// assert_eq!(Class::of_caller(&full), Class::Quota);
/// assert_eq!(Class::Quota.status(), 429);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Class {
    /// The caller has used up its limit.
    Quota,
    /// The request can never be granted: its cost is above the limit.
    TooLarge,
    /// The request has no key, and the limit is by key.
    NoKey,
    /// The program does not record what the key is made of, for instance the address of the peer.
    Misconfigured,
    /// The server has no room.
    Capacity,
}

impl Class {
    /// Returns the class of a refusal by a limit that several callers share.
    #[must_use]
    pub fn of(denied: &Denied) -> Self {
        match denied.reason() {
            Reason::Exhausted if denied.retry_after().is_none() => Self::Capacity,
            Reason::Exhausted | Reason::TooSoon | Reason::SoftThrottle | Reason::LockedOut => {
                Self::Quota
            }
            Reason::TooLarge => Self::TooLarge,
            Reason::NoKey => Self::NoKey,
            // Includes reasons that are added later: by default the server is responsible.
            _ => Self::Capacity,
        }
    }

    /// Returns the class of a refusal by a limit of the caller's own, such as a limit by address.
    #[must_use]
    pub fn of_caller(denied: &Denied) -> Self {
        match denied.reason() {
            Reason::Exhausted | Reason::QueueFull | Reason::Evicted | Reason::TimedOut => {
                Self::Quota
            }
            _ => Self::of(denied),
        }
    }

    /// Returns the status of the HTTP response.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Quota => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoKey => StatusCode::BAD_REQUEST,
            Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Capacity => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the status code of gRPC.
    ///
    /// ```
    /// use plimsoll_tower::answer::Class;
    ///
    /// assert_eq!(Class::Capacity.grpc_code(), 14); // UNAVAILABLE
    /// ```
    #[must_use]
    pub const fn grpc_code(self) -> u8 {
        match self {
            Self::Quota | Self::TooLarge => 8,
            Self::NoKey => 3,
            Self::Misconfigured => 13,
            Self::Capacity => 14,
        }
    }

    /// Returns the URI of the problem type: a type that IANA registers, or `about:blank`.
    #[must_use]
    pub const fn problem_type(self) -> &'static str {
        match self {
            Self::Quota => "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Self::TooLarge | Self::NoKey | Self::Misconfigured => "about:blank",
            Self::Capacity => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
        }
    }

    /// Returns the title of the problem. A problem without a registered type has the phrase of its status as title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Quota => "Quota exceeded",
            Self::TooLarge => "Content Too Large",
            Self::NoKey => "Bad Request",
            Self::Misconfigured => "Internal Server Error",
            Self::Capacity => "Temporarily reduced capacity",
        }
    }
}
