//! A body that does what it is told, one step after the other.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};

/// What a body does when it is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Sends so much.
    Data(&'static str),
    /// Is not ready, once.
    Wait,
    /// Fails.
    Fail,
    /// Sends this status of gRPC in its trailers.
    Status(&'static str),
}

/// A body. It does not know its end before it is there, as bodies made of streams do not.
#[derive(Debug)]
pub(crate) struct Steps(VecDeque<Step>);

impl Steps {
    pub(crate) fn new(steps: &[Step]) -> Self {
        Self(steps.iter().copied().collect())
    }
}

impl Body for Steps {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match self.0.pop_front() {
            None => None,
            Some(Step::Data(text)) => Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
            Some(Step::Wait) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(Step::Fail) => Some(Err(io::Error::other("it was told to"))),
            Some(Step::Status(status)) => {
                let status = HeaderValue::from_static(status);
                let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status)]);
                Some(Ok(Frame::trailers(trailers)))
            }
        })
    }
}
