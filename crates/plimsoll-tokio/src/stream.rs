//! Streams whose items wait for a limit.
//!
//! An item is polled first, then waits for its permit, then is handed out. While it waits nothing more is
//! polled, so the pressure goes back to wherever the items come from. Asking in this order has two reasons: what an item
//! costs is only known when it is there; and a stream in which nothing happens takes nothing from anybody. The
//! price is that one item of each stream is in memory before it is admitted.
//!
//! A refused item comes back in a [`Refused`]. The stream goes on with the next one, unless the
//! limiter was closed: then it ends.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use plimsoll::kinds::{Rate, Resource};
use plimsoll::{Acquire, Demand, Denied, Reason};

use crate::held::Held;

/// Limits for any [`Stream`].
///
/// ```
/// use futures_util::{StreamExt, stream};
/// use plimsoll::{Concurrency, Gate, Queue};
/// use plimsoll_tokio::LimitedStream;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let memory = Gate::builder(Concurrency::new(1000)).queue(Queue::fifo(1000)).build();
/// let frames = stream::iter([vec![0; 600], vec![0; 600]]);
/// let mut frames = frames.limited_held_by(memory.clone(), |frame| frame.len() as u32);
///
/// let first = frames.next().await.unwrap()?;
/// assert_eq!(memory.snapshot().in_use(), 600);
/// // The second is not handed out before the work on the first is done.
/// drop(first);
/// let second = frames.next().await.unwrap()?;
/// # drop(second);
/// # Ok::<(), plimsoll_tokio::stream::Refused<_>>(()) }).unwrap();
/// ```
pub trait LimitedStream: Stream + Sized {
    /// Hands out items at a rate, each of cost 1.
    ///
    /// Only rates can stand here: nobody would hold the permit of another limit. For those there is
    /// [`limited_held`](Self::limited_held).
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

    /// Hands out items at a rate, each of the cost that `cost` says: a number, or a [`Demand`] with a priority or
    /// a deadline too.
    fn limited_by<C, D>(self, rate: impl Into<Rate>, cost: C) -> Limited<Self, C>
    where
        C: FnMut(&Self::Item) -> D,
        D: Into<Demand>,
    {
        Limited {
            held: LimitedHeld::new(self, rate.into().into(), cost),
        }
    }

    /// Hands out items with their permits, each of cost 1. They count until they are dropped.
    fn limited_held(
        self,
        limiter: impl Into<Resource>,
    ) -> LimitedHeld<Self, fn(&Self::Item) -> Demand> {
        self.limited_held_by(limiter, |_| Demand::ONE)
    }

    /// Hands out items with their permits, each of the cost that `cost` says. They count until they are
    /// dropped.
    fn limited_held_by<C, D>(self, limiter: impl Into<Resource>, cost: C) -> LimitedHeld<Self, C>
    where
        C: FnMut(&Self::Item) -> D,
        D: Into<Demand>,
    {
        LimitedHeld::new(self, limiter.into(), cost)
    }
}

impl<S: Stream> LimitedStream for S {}

/// An item that a limiter refused.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused<T> {
    /// What was refused.
    pub item: T,
    /// Why.
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
    /// A stream of items with their permits. See [`LimitedStream::limited_held`].
    #[must_use = "streams do nothing unless they are polled"]
    pub struct LimitedHeld<S: Stream, C> {
        #[pin]
        stream: S,
        limiter: Resource,
        cost: C,
        waiting: Option<Waiting<S::Item>>,
        ended: bool,
    }
}

/// An item that is there and not yet let through.
struct Waiting<T> {
    item: T,
    permit: Acquire<'static>,
}

impl<S: Stream, C> LimitedHeld<S, C> {
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

impl<S, C, D> Stream for LimitedHeld<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    type Item = Result<Held<S::Item>, Refused<S::Item>>;

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
            Poll::Ready(Ok(permit)) => Ok(Held::new(waiting.item, permit)),
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
        // A limiter that is closed ends the stream after the next item, whatever was to come.
        (
            waiting.max(least.min(1)),
            most.and_then(|most| most.checked_add(waiting)),
        )
    }
}

impl<S, C, D> FusedStream for LimitedHeld<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    fn is_terminated(&self) -> bool {
        self.ended && self.waiting.is_none()
    }
}

impl<S: Stream + fmt::Debug, C> fmt::Debug for LimitedHeld<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedHeld")
            .field("stream", &self.stream)
            .field("limiter", &self.limiter)
            .field("waits", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// A stream of items that come at a rate. See [`LimitedStream::limited`].
    #[must_use = "streams do nothing unless they are polled"]
    pub struct Limited<S: Stream, C> {
        #[pin]
        held: LimitedHeld<S, C>,
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
        let next = ready!(self.project().held.poll_next(cx));
        Poll::Ready(next.map(|item| item.map(Held::into_inner)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.held.size_hint()
    }
}

impl<S, C, D> FusedStream for Limited<S, C>
where
    S: Stream,
    C: FnMut(&S::Item) -> D,
    D: Into<Demand>,
{
    fn is_terminated(&self) -> bool {
        self.held.is_terminated()
    }
}

impl<S: Stream + fmt::Debug, C> fmt::Debug for Limited<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limited").field(&self.held).finish()
    }
}
