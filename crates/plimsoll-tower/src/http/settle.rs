//! The final cost of a request, if it is known only afterwards.

use std::sync::Arc;

use http::{Extensions, HeaderMap, Response, StatusCode};
use plimsoll::Outcome;

use super::usage::Usage;

/// A response without its body. Outcomes and costs are read from it.
///
/// ```
/// use http::{Response, StatusCode};
/// use plimsoll_tower::ResponseHead;
///
/// let response = Response::builder().status(404).header("x-cost", "3").body(())?;
/// let head = ResponseHead::of(&response);
/// assert_eq!((head.status(), &head.headers()["x-cost"]), (StatusCode::NOT_FOUND, &"3".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`RequestLimit::charge_response`](crate::RequestLimit::charge_response) and
/// [`HttpLimitLayer::classify`](crate::HttpLimitLayer::classify) pass it to their closures. It consists of references, so copying
/// it is cheap.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'r> {
    status: StatusCode,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> ResponseHead<'r> {
    /// Returns the head of a response with any type of body.
    #[must_use]
    pub fn of<B>(response: &'r Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }

    /// Returns the status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns all header fields.
    #[must_use]
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// Returns the extensions: values that the handler passes to the layers around it.
    ///
    /// ```
    /// use http::Response;
    /// use plimsoll_tower::ResponseHead;
    ///
    /// #[derive(Clone, Copy)]
    /// struct Rows(u64);
    ///
    /// // For `RequestLimit::charge_response`.
    /// let cost = |response: ResponseHead<'_>| response.extensions().get().map_or(1, |Rows(rows)| *rows);
    /// let mut response = Response::new(());
    /// response.extensions_mut().insert(Rows(42));
    /// assert_eq!(cost(ResponseHead::of(&response)), 42);
    /// ```
    #[must_use]
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }
}

/// The progress of a request that is answered or done.
#[doc(hidden)]
#[derive(Debug)]
pub enum Done<'a> {
    /// The head of the response has arrived.
    Answered(ResponseHead<'a>),
    /// Permits that do not depend on the body of the response are returned with its head.
    UntilHead(Outcome),
    /// An inner limit has refused the request; this is its response.
    RefusedInside {
        head: ResponseHead<'a>,
        usage: Option<&'a Usage>,
    },
    /// The body has ended. If it is not `complete`, the caller has disconnected, or something has failed.
    Sent {
        bytes: u64,
        usage: Option<&'a Usage>,
        complete: bool,
        outcome: Outcome,
    },
}

impl Done<'_> {
    /// Returns the outcome when the permits are returned; `None` before that.
    pub const fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Answered(_) | Self::UntilHead(_) => None,
            Self::RefusedInside { .. } => Some(Outcome::Ignore),
            Self::Sent { outcome, .. } => Some(*outcome),
        }
    }
}

/// The source of the final cost of a request.
#[derive(Clone, Default)]
pub(super) enum Settle {
    /// It was known before.
    #[default]
    Never,
    ByResponse(Arc<dyn Fn(ResponseHead<'_>) -> u64 + Send + Sync>),
    ByBytes(Arc<dyn Fn(u64) -> u64 + Send + Sync>),
    ByUsage,
}

impl Settle {
    /// Whether the cost is known only when the body has ended.
    pub(super) const fn reads_body(&self) -> bool {
        matches!(self, Self::ByBytes(_) | Self::ByUsage)
    }

    /// The final cost, if it is known. `estimate` is the cost that was taken.
    pub(super) fn cost(&self, done: &Done<'_>, estimate: u64) -> Option<u64> {
        match (self, done) {
            (Self::ByResponse(cost), Done::Answered(head) | Done::RefusedInside { head, .. }) => {
                Some(cost(*head))
            }
            (Self::ByBytes(cost), Done::Sent { bytes, .. }) => Some(cost(*bytes)),
            (
                Self::ByUsage,
                Done::Sent {
                    usage, complete, ..
                },
            ) => Some(used(*usage, *complete, estimate)),
            (Self::ByUsage, Done::RefusedInside { usage, .. }) => {
                Some(used(*usage, false, estimate))
            }
            _ => None,
        }
    }
}

/// The charge for usage. A call that was cut short may not have reported all of its usage: if only the report were
/// charged, callers could avoid the charge by disconnecting in time.
fn used(usage: Option<&Usage>, complete: bool, estimate: u64) -> u64 {
    let total = usage.map_or(0, Usage::total);
    if usage.map_or(complete, |usage| usage.is_known(complete)) {
        total
    } else {
        total.max(estimate)
    }
}
