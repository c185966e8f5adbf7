use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use crate::http::BodyBytes;

/// A body with a beginning that was already read: it yields the read frames first, then the rest. An
/// [`Estimated`](super::Estimated) service passes it on.
///
/// An error of the body during reading is yielded at its place. Handlers can use it as any other body:
///
/// ```
/// use http_body::Body;
/// use plimsoll_tower::json::Replayed;
///
/// async fn handler<B: Body>(request: http::Request<Replayed<B>>) -> Option<u64> {
///     request.body().size_hint().exact()
/// }
/// # let _ = handler::<axum::body::Body>;
/// ```
pub struct Replayed<B: Body> {
    /// The frames that were read, the last one first.
    read: Vec<Part<B>>,
    /// The rest, if there may be more.
    rest: Option<Pin<Box<B>>>,
    /// The counter of its bytes, if there is one.
    counted: Option<BodyBytes>,
}

/// A result of polling a body.
pub(super) type Part<B> = Result<Frame<<B as Body>::Data>, <B as Body>::Error>;

impl<B: Body> Replayed<B> {
    /// A body of which nothing was read.
    pub(super) fn whole(rest: B) -> Self {
        Self::after(Vec::new(), Some(Box::pin(rest)))
    }

    /// A body of which these frames were read, in this order.
    pub(super) fn after(mut read: Vec<Part<B>>, rest: Option<Pin<Box<B>>>) -> Self {
        read.reverse();
        Self {
            read,
            rest,
            counted: None,
        }
    }

    /// The same body, whose bytes are counted as they pass.
    pub(super) fn counted(mut self, counted: Option<BodyBytes>) -> Self {
        self.counted = counted;
        self
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Part<B>>> {
        if let Some(part) = self.read.pop() {
            return Poll::Ready(Some(part));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

// Only the boxed body is pinned.
impl<B: Body> Unpin for Replayed<B> {}

impl<B: Body> Body for Replayed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let part = ready!(self.poll_part(cx));
        if let (Some(counted), Some(Ok(frame))) = (&self.counted, &part) {
            counted.add(frame.data_ref().map_or(0, Buf::remaining) as u64);
        }
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let read = self
            .read
            .iter()
            .filter_map(|part| part.as_ref().ok()?.data_ref());
        let read: u64 = read.map(|data| data.remaining() as u64).sum();
        let Some(rest) = &self.rest else {
            return SizeHint::with_exact(read);
        };
        let rest = rest.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(rest.lower().saturating_add(read));
        hint
    }
}

impl<B: Body> fmt::Debug for Replayed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayed")
            .field("read", &self.read.len())
            .finish_non_exhaustive()
    }
}
