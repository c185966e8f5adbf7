//! What a request came to, when that is known only afterwards.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Extensions, HeaderMap, Response, StatusCode};

/// A response without its body: what outcomes and costs are read from.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'r> {
    status: StatusCode,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> ResponseHead<'r> {
    /// The head of this response, whatever its body.
    #[must_use]
    pub fn of<B>(response: &'r Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// All header fields.
    #[must_use]
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// What the handler says to the layers around it.
    #[must_use]
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }
}

/// What a handler has used of a limit that [reads it](crate::RequestLimit::charge_usage): the tokens of a model, rows,
/// whatever the limit counts.
///
/// The layer puts it into the extensions of the request. A clone is the same count, so it can be moved into a body
/// that is still being written; what it says when the body has ended is charged.
///
/// ```
/// use plimsoll_tower::Usage;
///
/// let usage = Usage::default();
/// usage.clone().add(1200);
/// assert_eq!(usage.total(), 1200);
/// ```
#[derive(Clone, Default)]
pub struct Usage(Arc<AtomicU64>);

impl Usage {
    /// So much more was used.
    pub fn add(&self, amount: u64) {
        let add = |total: u64| Some(total.saturating_add(amount));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// What was used so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Usage").field(&self.total()).finish()
    }
}

/// What is known of a request that is done, or at least answered.
#[doc(hidden)]
#[derive(Debug)]
pub enum Done<'a> {
    /// The head of the response is there.
    Answered(ResponseHead<'a>),
    /// The body has ended, or nobody wants it any more.
    Sent {
        bytes: u64,
        usage: Option<&'a Usage>,
    },
}

/// How the cost of a request is found out afterwards.
#[derive(Clone, Default)]
pub(super) enum Settle {
    /// It was known before.
    #[default]
    Never,
    ByResponse(Arc<dyn Fn(ResponseHead<'_>) -> u32 + Send + Sync>),
    ByBytes(Arc<dyn Fn(u64) -> u32 + Send + Sync>),
    ByUsage,
}

impl Settle {
    /// What it cost, if this tells.
    pub(super) fn cost(&self, done: &Done<'_>) -> Option<u32> {
        match (self, done) {
            (Self::ByResponse(cost), Done::Answered(head)) => Some(cost(*head)),
            (Self::ByBytes(cost), Done::Sent { bytes, .. }) => Some(cost(*bytes)),
            (Self::ByUsage, Done::Sent { usage, .. }) => {
                let total = usage.map_or(0, Usage::total);
                Some(u32::try_from(total).unwrap_or(u32::MAX))
            }
            _ => None,
        }
    }
}
