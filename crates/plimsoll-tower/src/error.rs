use std::error::Error;
use std::fmt;

use plimsoll::Denied;

/// The error of a call to a [`Limit`](crate::Limit): a refusal, or the error of the inner service.
///
/// ```
/// use plimsoll::{Denied, Reason};
/// use plimsoll_tower::LimitError;
///
/// fn is_worth_a_retry(error: &LimitError<std::io::Error>) -> bool {
///     match error {
///         LimitError::Denied(denied) => denied.retry_after().is_some(),
///         LimitError::Service(error) => error.kind() == std::io::ErrorKind::Interrupted,
///     }
/// }
/// assert!(!is_worth_a_retry(&LimitError::Denied(Denied::new(Reason::Closed))));
/// ```
///
/// The enum is exhaustive, so that callers can extract the error of the service with a `match` without a wildcard arm.
/// New reasons to refuse are added to [`Reason`](plimsoll::Reason).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LimitError<E> {
    /// The limit refused the call. The service was not called.
    Denied(Denied),
    /// The error of the service.
    Service(E),
}

impl<E> LimitError<E> {
    /// Returns the refusal, or `None` if the service failed.
    pub const fn denied(&self) -> Option<&Denied> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Service(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for LimitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denied) => denied.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for LimitError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Service(error) => error.source(),
        }
    }
}
