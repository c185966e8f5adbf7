use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use plimsoll::{Demand, Denied, LimiterExt, Reason};
use plimsoll_kinds::{Rate, Resource, RetryingAcquire};

use super::taken::Taken;

type BoxError = Box<dyn Error + Send + Sync>;

pin_project! {
    /// A body whose bytes are limited as they pass, of a request or of a response.
    ///
    /// A frame that the rate of `network_bytes` does not yet grant is held back until it is granted; a frame of a request for which
    /// there is no memory fails the body. The permits of a request are held until the bodies of the response and of the request are
    /// dropped.
    ///
    /// Its error is the error of the inner body, or a [`Denied`], boxed:
    ///
    /// ```
    /// use plimsoll::Denied;
    ///
    /// /// Whether a handler could not read a body because of a limit.
    /// fn is_limited(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    ///     error.is::<Denied>()
    /// }
    /// # let _ = is_limited;
    /// ```
    pub struct MeasuredBody<B: Body> {
        #[pin]
        body: B,
        taken: Arc<Taken>,
        // The bytes of memory that were taken beforehand; `None` if it is not the body of a request.
        stated: Option<u64>,
        // A frame that waits for its bytes.
        waiting: Option<(Frame<B::Data>, Bytes)>,
    }
}

impl<B: Body> MeasuredBody<B> {
    /// The body of a request. The memory for its stated length was taken before.
    pub(super) fn request(body: B, taken: Arc<Taken>, stated: u64) -> Self {
        Self {
            body,
            taken,
            stated: Some(stated),
            waiting: None,
        }
    }

    /// The body of a response.
    pub(super) fn response(body: B, taken: Arc<Taken>) -> Self {
        Self {
            body,
            taken,
            stated: None,
            waiting: None,
        }
    }
}

/// Takes memory for bytes of a request beyond its stated length. It never waits.
fn keep_memory(taken: &Taken, stated: &mut u64, bytes: u64) -> Result<(), Denied> {
    let Some(memory) = taken.meters.memory.as_deref() else {
        return Ok(());
    };
    let beyond = bytes.saturating_sub(*stated);
    *stated = stated.saturating_sub(bytes);
    if beyond > 0 {
        let permit = memory.try_acquire(Demand::of(beyond))?;
        taken.keep(permit.into_owned());
    }
    Ok(())
}

impl<B: Body<Error: Into<BoxError>>> Body for MeasuredBody<B> {
    type Data = B::Data;
    /// The error of the inner body, or a [`Denied`].
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        if this.waiting.is_none() {
            let frame = match ready!(this.body.poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            };
            let size = frame.data_ref().map_or(0, |data| data.remaining() as u64);
            if let Some(stated) = this.stated
                && let Err(denied) = keep_memory(this.taken, stated, size)
            {
                return Poll::Ready(Some(Err(denied.into())));
            }
            match &this.taken.meters.bytes {
                Some(rate) if size > 0 => *this.waiting = Some((frame, Bytes::new(rate, size))),
                _ => return Poll::Ready(Some(Ok(frame))),
            }
        }
        if let Some((_, bytes)) = this.waiting
            && let Err(denied) = ready!(bytes.poll(cx))
        {
            *this.waiting = None;
            return Poll::Ready(Some(Err(denied.into())));
        }
        Poll::Ready(this.waiting.take().map(|(frame, _)| Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        if let Some((frame, _)) = &self.waiting {
            let size = frame.data_ref().map_or(0, |data| data.remaining() as u64);
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper.saturating_add(size));
            }
            hint.set_lower(hint.lower().saturating_add(size));
        }
        hint
    }
}

impl<B: Body> fmt::Debug for MeasuredBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasuredBody")
            .field("waits", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

/// Bytes of a rate, taken in parts if they exceed its burst.
struct Bytes {
    rate: Rate,
    left: u64,
    /// The maximum of a part.
    most: u64,
    waiting: Option<RetryingAcquire>,
}

impl Bytes {
    fn new(rate: &Rate, bytes: u64) -> Self {
        Self {
            rate: rate.clone(),
            left: bytes,
            most: u64::MAX,
            waiting: None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Denied>> {
        while self.left > 0 {
            let part = self.left.min(self.most);
            let answer = match &mut self.waiting {
                None => match self.rate.attempt(Demand::of(part)) {
                    Ok(permit) => Ok(permit.cost()),
                    Err(_) => {
                        let resource = Resource::from(self.rate.clone());
                        self.waiting = Some(RetryingAcquire::new(resource, Demand::of(part)));
                        continue;
                    }
                },
                Some(waiting) => ready!(Pin::new(waiting).poll(cx)).map(|permit| permit.cost()),
            };
            self.waiting = None;
            match answer {
                Ok(cost) => self.left -= cost,
                Err(denied)
                    if denied.reason() == Reason::TooLarge
                        && (1..part).contains(&denied.limit()) =>
                {
                    self.most = denied.limit();
                }
                Err(denied) => return Poll::Ready(Err(denied)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
