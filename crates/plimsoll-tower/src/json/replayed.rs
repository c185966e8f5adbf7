use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

/// A body of which a part was read already: that part first, then the rest.
pub struct Replayed<B: Body> {
    /// What was read, the last first.
    read: Vec<Part<B>>,
    /// What is left, if there is more.
    rest: Option<Pin<Box<B>>>,
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
        Self { read, rest }
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
        if let Some(part) = self.read.pop() {
            return Poll::Ready(Some(part));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(cx),
            None => Poll::Ready(None),
        }
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

/// The bytes of a part, without taking them.
pub(super) fn copy(data: &impl Buf, into: &mut Vec<u8>) {
    // A part is mostly in one piece.
    if data.chunk().len() == data.remaining() {
        into.extend_from_slice(data.chunk());
        return;
    }
    let mut parts = [std::io::IoSlice::new(&[]); 64];
    let count = data.chunks_vectored(&mut parts);
    for part in &parts[..count] {
        into.extend_from_slice(part);
    }
}

impl<B: Body> fmt::Debug for Replayed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayed")
            .field("read", &self.read.len())
            .finish_non_exhaustive()
    }
}
