use http::StatusCode;
use plimsoll::{Denied, Reason};

/// What kind of refusal it is: whose limit was met, and hence what the caller should do.
///
/// | class | HTTP | gRPC | reasons |
/// |---|---|---|---|
/// | `Quota` | 429 | `RESOURCE_EXHAUSTED` | the caller's own limit is used up; locked out for exceeding it |
/// | `TooLarge` | 413 | `RESOURCE_EXHAUSTED` | the cost is above the limit |
/// | `NoKey` | 400 | `INVALID_ARGUMENT` | the request does not say whose limit counts |
/// | `Misconfigured` | 500 | `INTERNAL` | the program does not know whose limit counts |
/// | `Capacity` | 503 | `UNAVAILABLE` | everything else |
///
/// A request that is too large is refused however often it comes, and 429 would invite its sender to try again:
/// so it is 413, without a `Retry-After`. In gRPC messages that are too large have the first code already.
///
/// Of a limit for all requests, one that is used up is a quota if somebody knows when there is more. If others must give
/// back what they hold, as with a concurrency limit, the server is full. A limit of the caller's own is its quota in any
/// case, also where it is a number of requests at once or a queue that is full: 503 would tell clients and proxies that the
/// server is in trouble, because of one caller that is ([`of_caller`](Self::of_caller)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Class {
    /// The caller has used what it may use.
    Quota,
    /// The request can never be granted.
    TooLarge,
    /// The request does not say whose it is.
    NoKey,
    /// The program does not keep what says whose the request is, for instance the address of the peer.
    Misconfigured,
    /// The server has no room.
    Capacity,
}

impl Class {
    /// The class of this refusal.
    #[must_use]
    pub fn of(denied: &Denied) -> Self {
        match denied.reason() {
            Reason::Exhausted if denied.retry_after().is_none() => Self::Capacity,
            Reason::Exhausted | Reason::TooSoon | Reason::SoftThrottle | Reason::LockedOut => {
                Self::Quota
            }
            Reason::TooLarge => Self::TooLarge,
            Reason::NoKey => Self::NoKey,
            // And what will be added: who knows nothing better says that the server is to blame.
            _ => Self::Capacity,
        }
    }

    /// The class of this refusal by a limit of the caller's own.
    #[must_use]
    pub fn of_caller(denied: &Denied) -> Self {
        match denied.reason() {
            Reason::Exhausted | Reason::QueueFull | Reason::Evicted | Reason::TimedOut => {
                Self::Quota
            }
            _ => Self::of(denied),
        }
    }

    /// The status of an HTTP response.
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

    /// The status code of gRPC.
    #[must_use]
    pub const fn grpc_code(self) -> u8 {
        match self {
            Self::Quota | Self::TooLarge => 8,
            Self::NoKey => 3,
            Self::Misconfigured => 13,
            Self::Capacity => 14,
        }
    }

    /// The type of the problem, as IANA lists it.
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

    /// A title for people. That of a problem without a type is the name of its status.
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
