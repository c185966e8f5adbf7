//! Streams with items that wait for a permit.
//!
//! The adapter polls an item, then waits for its permit, then yields it. While it waits it polls no further items, so
//! backpressure reaches the source. There are two reasons for this order: the cost of an item is known only with the
//! item, and an idle stream takes no permits. The cost is that each stream has one item in memory that is not yet
//! admitted.
//!
//! A refused item is yielded as an error, [`Refused`], and the stream continues with the next one. If the limiter was
//! closed, the stream ends after that item.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use plimsoll::{Acquire, Demand, Denied, Reason};
use plimsoll_kinds::{Rate, Resource};

use crate::with_permit::WithPermit;

/// Adapters that limit any [`Stream`].
///
/// ```
/// use futures_util::{StreamExt, stream};
/// use plimsoll::{Concurrency, Gate, Queue};
/// use plimsoll_tokio::LimitedStream;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let memory = Gate::builder(Concurrency::new(1000)).queue(Queue::fifo(1000)).build();
/// let frames = stream::iter([vec![0; 600], vec![0; 600]]);
/// let mut frames = frames.limited_with_permit_by(memory.clone(), |frame| frame.len() as u64);
///
/// let first = frames.next().await.unwrap()?;
/// assert_eq!(memory.snapshot().in_use(), 600);
/// // The second is not yielded before the first is dropped.
/// drop(first);
/// let second = frames.next().await.unwrap()?;
/// # drop(second);
/// # Ok::<(), plimsoll_tokio::stream::Refused<_>>(()) }).unwrap();
/// ```
pub trait LimitedStream: Stream + Sized {
    /// Yields items at a rate, each at a cost of 1.
    ///
    /// ```
    /// use futures_util::{StreamExt, stream};
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_tokio::LimitedStream;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// // Without a queue, items above the rate are yielded as errors.
    /// let items = stream::iter(0..5).limited(Gate::new(TokenBucket::per_second(2)));
    /// let admitted = items.filter(|item| std::future::ready(item.is_ok())).count().await;
    /// assert_eq!(admitted, 2);
    /// # });
    /// ```
    ///
    /// It takes only rates, because the items do not hold permits. For other limits use
    /// [`limited_with_permit`](Self::limited_with_permit).
    ///
    /// ```compile_fail
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tokio::LimitedStream;
    ///
    /// let items = futures_util::stream::iter(0..9).limited(Gate::new(Concurrency::new(2)));
    /// ```
    fn limited(self, rate: impl Into<Rate>) -> Limited<Self, fn(&Self::Item) -> Demand> {
        self.limited_by(rate, |_| Demand::ONE)
    }

    /// Yields items at a rate, each at the cost that `cost` returns: a number, or a [`Demand`] with a priority or a
    /// deadline.
    ///
    /// The cost is computed once, when the item is polled.
    fn limited_by<C, D>(self, rate: impl Into<Rate>, cost: C) -> Limited<Self, C>
    where
        C: FnMut(&Self::Item) -> D,
        D: Into<Demand>,
    {
        Limited {
            inner: LimitedWithPermit::new(self, rate.into().into(), cost),
        }
    }

    /// Yields items with their permits, each at a cost of 1. An item counts until it is dropped.
    ///
    /// With a [`Concurrency`](plimsoll::Concurrency) limit this bounds the number of items in progress, also across
    /// streams that share the limiter.
    fn limited_with_permit(
        self,
        limiter: impl Into<Resource>,
    ) -> LimitedWithPermit<Self, fn(&Self::Item) -> Demand> {
        self.limited_with_permit_by(limiter, |_| Demand::ONE)
    }

    /// Yields items with their permits, each at the cost that `cost` returns. An item counts until it is dropped.
    fn limited_with_permit_by<C, D>(
        self,
        limiter: impl Into<Resource>,
        cost: C,
    ) -> LimitedWithPermit<Self, C>
    where
        C: FnMut(&Self::Item) -> D,
        D: Into<Demand>,
    {
        LimitedWithPermit::new(self, limiter.into(), cost)
    }
}

impl<S: Stream> LimitedStream for S {}

/// An item that a limiter refused, with the refusal.
///
/// The stream yields it as an error and continues, so the item can be retried, logged or dropped:
///
/// ```
/// use futures_util::{StreamExt, stream};
/// use plimsoll::{Gate, Reason, TokenBucket};
/// use plimsoll_tokio::LimitedStream;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut items = stream::iter(["a", "b"]).limited(Gate::new(TokenBucket::per_second(1)));
/// assert!(items.next().await.unwrap().is_ok());
/// let refused = items.next().await.unwrap().unwrap_err();
/// assert_eq!((refused.item, refused.denied.reason()), ("b", Reason::Exhausted));
/// # });
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused<T> {
    /// The refused item.
    pub item: T,
    /// The refusal.
    pub denied: Denied,
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.denied.fmt(f)
    }
}

/// Items need not be printable.
impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refused").field(&self.denied).finish()
    }
}

impl<T> Error for Refused<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.denied)
    }
}

pin_project! {
    /// A stream of items with their permits. [`LimitedStream::limited_with_permit`] returns one.
    ///
    /// It is fused: after its end it yields `None`.
    #[must_use = "streams do nothing unless they are polled"]
    pub struct LimitedWithPermit<S: Stream, C> {
        #[pin]
        stream: S,
        limiter: Resource,
        cost: C,
        waiting: Option<Waiting<S::Item>>,
        ended: bool,
    }
}

/// An item that waits for its permit.
struct Waiting<T> {
    item: T,
    permit: Acquire<'static>,
}

impl<S: Stream, C> LimitedWithPermit<S, C> {
    fn new(stream: S, limiter: Resource, cost: C) -> Self {
        Self {
            stream,
            limiter,
            cost,
            waiting: None,
            ended: false,
        }
    }
}

impl<S, C, D> Stream for LimitedWithPermit<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    type Item = Result<WithPermit<S::Item>, Refused<S::Item>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if this.waiting.is_none() {
            if *this.ended {
                return Poll::Ready(None);
            }
            let Some(item) = ready!(this.stream.poll_next(cx)) else {
                *this.ended = true;
                return Poll::Ready(None);
            };
            let demand = (this.cost)(&item).into();
            let permit = this.limiter.acquire_owned(demand);
            *this.waiting = Some(Waiting { item, permit });
        }
        let Some(mut waiting) = this.waiting.take() else {
            return Poll::Ready(None);
        };
        let item = match Pin::new(&mut waiting.permit).poll(cx) {
            Poll::Pending => {
                *this.waiting = Some(waiting);
                return Poll::Pending;
            }
            Poll::Ready(Ok(permit)) => Ok(WithPermit::new(waiting.item, permit)),
            Poll::Ready(Err(denied)) => {
                *this.ended |= denied.reason() == Reason::Closed;
                Err(Refused {
                    item: waiting.item,
                    denied,
                })
            }
        };
        Poll::Ready(Some(item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let waiting = usize::from(self.waiting.is_some());
        if self.ended {
            return (waiting, Some(waiting));
        }
        let (least, most) = self.stream.size_hint();
        // Closing the limiter ends the stream after the next item.
        (
            waiting.max(least.min(1)),
            most.and_then(|most| most.checked_add(waiting)),
        )
    }
}

impl<S, C, D> FusedStream for LimitedWithPermit<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    fn is_terminated(&self) -> bool {
        self.ended && self.waiting.is_none()
    }
}

impl<S: Stream + fmt::Debug, C> fmt::Debug for LimitedWithPermit<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedWithPermit")
            .field("stream", &self.stream)
            .field("limiter", &self.limiter)
            .field("waits", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// A stream that yields items at a rate. [`LimitedStream::limited`] returns one.
    ///
    /// It is fused: after its end it yields `None`.
    #[must_use = "streams do nothing unless they are polled"]
    pub struct Limited<S: Stream, C> {
        #[pin]
        inner: LimitedWithPermit<S, C>,
    }
}

impl<S, C, D> Stream for Limited<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    type Item = Result<S::Item, Refused<S::Item>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.project().inner.poll_next(cx));
        Poll::Ready(next.map(|item| item.map(WithPermit::into_inner)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<S, C, D> FusedStream for Limited<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }
}

impl<S: Stream + fmt::Debug, C> fmt::Debug for Limited<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limited").field(&self.inner).finish()
    }
}
