use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::measure::Measure;
use crate::Usage;
use crate::http::copy;

pin_project! {
    /// The body of a response that is read for its usage as it passes. A [`Metered`](super::Metered) service returns
    /// it.
    ///
    /// Frames, trailers and errors pass unchanged, and nothing is held back. Up to the [maximum](super::JsonUsage::max) of bytes is
    /// copied; a body that exceeds it is no longer copied, and its copy is dropped. The usage is reported with the last frame, or
    /// when the announced length has passed. A body that is dropped or fails before that reports nothing.
    pub struct Copied<B> {
        #[pin]
        body: B,
        // The work left for its end; `None` if there is none.
        reader: Option<Reader>,
    }
}

/// The state of reading a response.
pub(super) struct Reader {
    pub(super) measure: Arc<Measure>,
    pub(super) usage: Usage,
    /// The usage to report if the response has none.
    pub(super) otherwise: Option<u64>,
    /// The length of the body; `u64::MAX` if it is unknown.
    pub(super) length: u64,
    pub(super) text: Vec<u8>,
    pub(super) passed: u64,
    /// Whether it is too long to be copied.
    pub(super) is_lost: bool,
}

impl Reader {
    /// Copies a part. Returns whether it was the last one according to the announced length.
    fn sees(&mut self, data: &impl Buf) -> bool {
        self.passed += data.remaining() as u64;
        let kept = self.text.len() + data.remaining();
        self.is_lost |= kept > self.measure.bound;
        if self.is_lost {
            self.text = Vec::new();
        } else {
            copy(data, &mut self.text);
        }
        self.passed >= self.length
    }

    /// Reports the usage.
    fn finish(self) {
        let read = (!self.is_lost)
            .then(|| self.measure.read(&self.text))
            .flatten();
        if let Some(used) = read.or(self.otherwise) {
            self.usage.add(used);
            self.usage.finish();
        }
    }
}

impl<B> Copied<B> {
    pub(super) fn new(body: B, reader: Option<Reader>) -> Self {
        Self { body, reader }
    }
}

impl<B: Body> Body for Copied<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        let is_last = match (&frame, this.reader.as_mut()) {
            (_, None) => false,
            // Incomplete: the usage is unknown.
            (Some(Err(_)), _) => {
                *this.reader = None;
                false
            }
            (None, _) => true,
            (Some(Ok(frame)), Some(reader)) => {
                let complete = frame.data_ref().is_some_and(|data| reader.sees(data));
                complete || frame.is_trailers() || this.body.is_end_stream()
            }
        };
        // Before the frame is passed on: an outer layer settles with the last frame.
        if is_last && let Some(reader) = this.reader.take() {
            reader.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> fmt::Debug for Copied<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copied")
            .field("reads", &self.reader.is_some())
            .finish_non_exhaustive()
    }
}
