use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use plimsoll::Outcome;

use super::lasting::Lasting;
use super::limits::Limits;
use super::stall::Watched;

pin_project! {
    /// The body of a response behind limits: the body of the inner service, or that of a refusal.
    ///
    /// The permits of the request are returned, and its final cost is charged, when the body ends, fails, or is
    /// dropped. Frames pass unchanged. With a [stall time-out](crate::HttpLimitLayer::stall_timeout), a body that is
    /// not read for too long fails with [`Stalled`](crate::Stalled).
    ///
    /// Its error is boxed, so that one type covers both causes:
    ///
    /// ```
    /// use http_body::Body;
    /// use plimsoll_tower::{LimitBody, Limits, Stalled};
    ///
    /// fn is_stalled<B, L>(error: &<LimitBody<B, L> as Body>::Error) -> bool
    /// where
    ///     B: Body<Data = bytes::Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    ///     L: Limits,
    /// {
    ///     error.is::<Stalled>()
    /// }
    /// # let _ = is_stalled::<axum::body::Body, plimsoll_tower::RequestLimit<plimsoll::Gate<plimsoll::Concurrency>>>;
    /// ```
    pub struct LimitBody<B, L: Limits> {
        #[pin]
        pub(super) body: BodySource<B>,
        // Boxed, as is the body of a refusal: responses are moved often, and most hold nothing.
        pub(super) lasting: Option<Box<Hold<L>>>,
    }
}

/// The permits that a body holds.
pub(super) enum Hold<L: Limits> {
    Here(Lasting<L>),
    /// Until it stalls.
    Watched(Watched<L>),
}

type BoxError = Box<dyn Error + Send + Sync>;

pin_project! {
    #[project = KindView]
    pub(super) enum BodySource<B> {
        Service { #[pin] body: B },
        Refusal { body: Option<Box<Bytes>> },
    }
}

impl<B, L: Limits> LimitBody<B, L> {
    /// The body of a request that no longer holds anything.
    #[inline(always)]
    pub(super) const fn passed(body: B) -> Self {
        Self {
            body: BodySource::Service { body },
            lasting: None,
        }
    }

    /// The body of a refusal.
    pub(super) fn refusal(body: Bytes) -> Self {
        let body = (!body.is_empty()).then(|| Box::new(body));
        Self {
            body: BodySource::Refusal { body },
            lasting: None,
        }
    }
}

impl<B, L> Body for LimitBody<B, L>
where
    B: Body<Data: From<Bytes>, Error: Into<BoxError>>,
    L: Limits,
{
    type Data = B::Data;
    /// The error of the inner body, or [`Stalled`](crate::Stalled).
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let mut body = match this.body.as_mut().project() {
            KindView::Service { body } => body,
            KindView::Refusal { body } => {
                let frame = body.take().map(|bytes| Ok(Frame::data((*bytes).into())));
                return Poll::Ready(frame);
            }
        };
        if let Some(Hold::Watched(watched)) = this.lasting.as_deref_mut()
            && let Err(stalled) = watched.begin()
        {
            return Poll::Ready(Some(Err(stalled.into())));
        }
        let frame = ready!(body.as_mut().poll_frame(cx));
        let is_last = |lasting: &mut Lasting<L>| lasting.sees(&frame, &body);
        if let Some(Lasting {
            mut permits,
            outcome,
            ..
        }) = Hold::sent(this.lasting, is_last)
        {
            // A failed body is incomplete, which dropping it records.
            if !matches!(frame, Some(Err(_))) {
                permits.end(outcome.unwrap_or(Outcome::Ignore), true);
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            BodySource::Service { body } => body.is_end_stream(),
            BodySource::Refusal { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            BodySource::Service { body } => body.size_hint(),
            BodySource::Refusal { body } => {
                SizeHint::with_exact(body.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

impl<L: Limits> Hold<L> {
    #[inline]
    pub(super) fn new(lasting: Lasting<L>) -> Self {
        match lasting.permits.shared.settings.stall {
            Some(longest) => Self::Watched(Watched::new(lasting, longest)),
            None => Self::Here(lasting),
        }
    }

    /// Records that something was sent. Returns what is held if it was the last part.
    #[inline]
    fn sent(
        here: &mut Option<Box<Self>>,
        is_last: impl FnOnce(&mut Lasting<L>) -> bool,
    ) -> Option<Lasting<L>> {
        let last = match &mut **here.as_mut()? {
            Self::Watched(watched) => Some(watched.sent(is_last)?),
            Self::Here(lasting) => {
                if !is_last(lasting) {
                    return None;
                }
                None
            }
        };
        match *here.take()? {
            Self::Here(lasting) => Some(lasting),
            Self::Watched(_) => last,
        }
    }
}

/// An empty body, for services that require a default.
impl<B: Default, L: Limits> Default for LimitBody<B, L> {
    fn default() -> Self {
        Self {
            body: BodySource::Service { body: B::default() },
            lasting: None,
        }
    }
}

impl<B, L: Limits> fmt::Debug for LimitBody<B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitBody")
            .field("holds", &self.lasting.is_some())
            .finish_non_exhaustive()
    }
}
