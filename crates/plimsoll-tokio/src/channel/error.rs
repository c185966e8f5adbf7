use std::error::Error;
use std::fmt;

use plimsoll::{Denied, Reason};

/// The error of a failed send, with the unsent item.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError<T> {
    /// The limiter refused the item: the channel is full, or the wait would be too long.
    Full(T, Denied),
    /// The receiver was dropped or closed the channel, or the limiter was closed.
    Closed(T),
}

impl<T> SendError<T> {
    pub(super) fn refused(item: T, denied: Denied) -> Self {
        if denied.reason() == Reason::Closed {
            Self::Closed(item)
        } else {
            Self::Full(item, denied)
        }
    }

    /// Returns the unsent item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(item, _) | Self::Closed(item) => item,
        }
    }

    /// Returns the refusal of the limiter, if it refused.
    pub fn denied(&self) -> Option<&Denied> {
        match self {
            Self::Full(_, denied) => Some(denied),
            Self::Closed(_) => None,
        }
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_, denied) => write!(f, "not sent: {denied}"),
            Self::Closed(_) => f.write_str("not sent: the channel is closed"),
        }
    }
}

/// Items need not be printable.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_, denied) => f.debug_tuple("Full").field(denied).finish(),
            Self::Closed(_) => f.write_str("Closed"),
        }
    }
}

impl<T> Error for SendError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.denied().map(|denied| denied as _)
    }
}
