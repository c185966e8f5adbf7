use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use plimsoll::Outcome;

use super::holding::Holding;
use super::limits::Limits;
use super::outcome::outcome_of_trailers;

pin_project! {
    /// The body of a response behind a limit. What the request holds is given back when it has ended, failed, or is
    /// dropped.
    pub struct LimitBody<B, L: Limits> {
        #[pin]
        body: Kind<B>,
        holding: Option<Holding<L>>,
        // What the head said about the load.
        outcome: Option<Outcome>,
    }
}

pin_project! {
    #[project = KindView]
    enum Kind<B> {
        Service { #[pin] body: B },
        Refusal { body: Option<Bytes> },
    }
}

impl<B, L: Limits> LimitBody<B, L> {
    /// The body of a refusal.
    pub(super) fn refusal(body: Bytes) -> Self {
        let body = (!body.is_empty()).then_some(body);
        Self {
            body: Kind::Refusal { body },
            holding: None,
            outcome: None,
        }
    }

    /// A body that holds nothing, because nothing is to be held.
    #[inline]
    pub(super) const fn free(body: B) -> Self {
        Self {
            body: Kind::Service { body },
            holding: None,
            outcome: None,
        }
    }

    /// A body that holds what the request holds until it has ended.
    #[inline]
    pub(super) const fn holding(body: B, holding: Holding<L>, outcome: Option<Outcome>) -> Self {
        Self {
            body: Kind::Service { body },
            holding: Some(holding),
            outcome,
        }
    }
}

impl<B, L> Body for LimitBody<B, L>
where
    B: Body<Data: From<Bytes>>,
    L: Limits,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let mut body = match this.body.as_mut().project() {
            KindView::Service { body } => body,
            KindView::Refusal { body } => {
                let frame = body.take().map(|bytes| Ok(Frame::data(bytes.into())));
                return Poll::Ready(frame);
            }
        };
        let frame = ready!(body.as_mut().poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(data), Some(holding)) = (frame.data_ref(), this.holding.as_mut()) {
                    holding.sent(data.remaining() as u64);
                }
                if let Some(trailers) = frame.trailers_ref() {
                    *this.outcome = this.outcome.or(Some(outcome_of_trailers(trailers)));
                }
            }
            Some(Err(_)) => *this.outcome = Some(Outcome::Ignore),
            None => {}
        }
        let ended = matches!(frame, None | Some(Err(_))) || body.is_end_stream();
        if let (true, Some(holding)) = (ended, this.holding.take_if(|_| ended)) {
            holding.end(this.outcome.unwrap_or(Outcome::Ignore));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Kind::Service { body } => body.is_end_stream(),
            Kind::Refusal { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Kind::Service { body } => body.size_hint(),
            Kind::Refusal { body } => {
                SizeHint::with_exact(body.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

/// Empty, for services whose bodies have to have one.
impl<B: Default, L: Limits> Default for LimitBody<B, L> {
    fn default() -> Self {
        Self::free(B::default())
    }
}

impl<B, L: Limits> fmt::Debug for LimitBody<B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitBody")
            .field("holds", &self.holding.is_some())
            .finish_non_exhaustive()
    }
}
