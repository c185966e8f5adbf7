use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use crate::http::BodyBytes;

/// A body of which a part was read already: that part first, then the rest.
pub struct Replayed<B: Body> {
    /// What was read, the last first.
    read: Vec<Part<B>>,
    /// What is left, if there is more.
    rest: Option<Pin<Box<B>>>,
    /// Where its bytes are counted, if they are.
    counted: Option<BodyBytes>,
}

/// What a body gave when it was asked.
pub(super) type Part<B> = Result<Frame<<B as Body>::Data>, <B as Body>::Error>;

impl<B: Body> Replayed<B> {
    /// A body of which nothing was read.
    pub(super) fn whole(rest: B) -> Self {
        Self::after(Vec::new(), Some(Box::pin(rest)))
    }

    /// What was read, in the order in which it came, and the rest, if there is more.
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

// Nothing in it is pinned but what is in a box of its own.
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
