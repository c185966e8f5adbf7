//! Permits that are taken now for later use.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::acquire::{Cancel, Owner, Place};
use crate::clock::Sleep;
use crate::demand::Demand;
use crate::denied::Denied;
use crate::moment::Moment;
use crate::permit::Permit;
use crate::reason::Reason;

/// A permit that was taken now for later use. [`Limiter::reserve`](crate::Limiter::reserve) returns it.
///
/// For callers that must know now when they may act: schedulers, batch jobs, and clients with other work to do
/// meanwhile.
///
/// Awaiting it waits until it is ready and yields the permit. Dropping it cancels it. Before it is ready, cancelling
/// refunds the units that no later reservation relies on; afterwards it refunds nothing. [`undo`](Self::undo) also
/// refunds it afterwards, for callers that know that it was not used.
///
/// ```
/// use plimsoll::{Gate, ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let gate = Gate::builder(TokenBucket::per_second(1)).clock(time.clock()).build();
/// let now = gate.reserve(1)?;
/// let later = gate.reserve(1)?;
/// assert_eq!(now.wait(), Some(Duration::ZERO));
/// assert_eq!(later.wait(), Some(Duration::from_secs(1)));
///
/// drop(later);
/// assert_eq!(gate.reserve(1)?.wait(), Some(Duration::from_secs(1)));
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reservation<'a> {
    hold: Hold<'a>,
    made_at: Moment,
    ready_at: Moment,
}

/// The resource that a reservation holds until it is a permit.
pub(crate) enum Hold<'a> {
    /// A permit that was taken at once.
    Taken(Owner<'a>, Option<Permit<'a>>),
    /// A booking ahead of time.
    Booked(Booked<'a>),
    /// A place in the queue.
    Queued(Place<'a>),
    /// A permit that a limiter of another kind granted at once.
    Granted(Option<Permit<'a>>),
    /// A reservation of a limiter of another kind.
    Other(Box<dyn Pending<'a> + 'a>),
    Done,
}

/// A reservation of a limiter that is not a gate. Dropping it cancels it.
pub(crate) trait Pending<'a>:
    Future<Output = Result<Permit<'a>, Denied>> + Send + Unpin
{
    /// See [`Reservation::undo`].
    fn undo(self: Box<Self>);
}

/// A future that yields a permit, without any other information.
struct Foreign<F>(F);

impl<F: Future + Unpin> Future for Foreign<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<'a, F> Pending<'a> for Foreign<F>
where
    F: Future<Output = Result<Permit<'a>, Denied>> + Send + Unpin,
{
    fn undo(mut self: Box<Self>) {
        // Before its time, dropping it cancels it; from then on it is a permit, which can be undone.
        let ready = Pin::new(&mut *self).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(Ok(permit)) = ready {
            permit.undo();
        }
    }
}

/// A reservation that borrows nothing.
struct Owned<'a>(Reservation<'static>, PhantomData<Permit<'a>>);

impl<'a> Future for Owned<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<'a> Pending<'a> for Owned<'a> {
    fn undo(self: Box<Self>) {
        self.0.undo();
    }
}

/// A reservation that can be replaced by another while it is awaited.
struct Followed<F> {
    first: Option<Reservation<'static>>,
    by: F,
}

impl<F> Future for Followed<F>
where
    F: FnMut(&mut Option<Reservation<'static>>, &mut Context<'_>) -> Poll<Answer> + Unpin,
{
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Self { first, by } = &mut *self;
        by(first, cx)
    }
}

impl<F> Pending<'static> for Followed<F>
where
    F: FnMut(&mut Option<Reservation<'static>>, &mut Context<'_>) -> Poll<Answer> + Send + Unpin,
{
    fn undo(self: Box<Self>) {
        self.first.into_iter().for_each(Reservation::undo);
    }
}

/// The output of a reservation that borrows nothing.
type Answer = Result<Permit<'static>, Denied>;

/// A booking ahead of time, cancelled when it is dropped.
pub(crate) struct Booked<'a> {
    owner: Owner<'a>,
    id: u64,
    demand: Demand,
    sleep: Option<Sleep>,
    ended: bool,
}

impl Reservation<'static> {
    /// Polls this reservation with a function, which may replace it.
    #[doc(hidden)]
    pub fn followed(
        self,
        by: impl FnMut(&mut Option<Self>, &mut Context<'_>) -> Poll<Answer> + Send + Unpin + 'static,
    ) -> Self {
        let (made_at, ready_at) = (self.made_at, self.ready_at());
        let first = Some(self);
        Self::of(made_at, ready_at, Followed { first, by })
    }

    /// Returns the same reservation with a shorter lifetime.
    #[doc(hidden)]
    pub fn for_borrow<'a>(self) -> Reservation<'a> {
        let (made_at, ready_at) = (self.made_at, self.ready_at());
        Reservation::of(made_at, ready_at, Owned(self, PhantomData))
    }
}

impl<'a> Reservation<'a> {
    /// Wraps a permit as a reservation that is ready now, for authors of limiters without later grants. Dropping it
    /// undoes the permit.
    ///
    /// ```
    /// use plimsoll::{Demand, Denied, Limiter, Reservation};
    ///
    /// /// What the default of [`Limiter::reserve`] does.
    /// fn reserve<L: Limiter>(limiter: &L, demand: Demand) -> Result<Reservation<'_>, Denied> {
    ///     limiter.try_acquire(demand).map(Reservation::ready)
    /// }
    /// ```
    pub fn ready(permit: Permit<'a>) -> Self {
        let now = permit.granted_at();
        Self::new(Hold::Granted(Some(permit)), now, now)
    }

    /// Wraps a future that yields the permit, for authors of limiters. The reservation is made at `made_at`, ready at
    /// `ready_at` if that is known, and cancelled by dropping the future.
    pub fn from_future(
        made_at: Moment,
        ready_at: Option<Moment>,
        permit: impl Future<Output = Result<Permit<'a>, Denied>> + Send + Unpin + 'a,
    ) -> Self {
        Self::of(made_at, ready_at, Foreign(permit))
    }

    /// Like [`from_future`](Self::from_future), for a reservation with its own undo.
    pub(crate) fn of(
        made_at: Moment,
        ready_at: Option<Moment>,
        permit: impl Pending<'a> + 'a,
    ) -> Self {
        let ready_at = ready_at.unwrap_or(Moment::NEVER);
        Self::new(Hold::Other(Box::new(permit)), made_at, ready_at)
    }

    pub(crate) fn new(hold: Hold<'a>, made_at: Moment, ready_at: Moment) -> Self {
        Self {
            hold,
            made_at,
            ready_at,
        }
    }

    /// Cancels the reservation as if it had never been made, even if it is ready. Use it if one of several limiters has
    /// refused its part.
    ///
    /// In contrast, a reservation that is dropped after it was ready counts as used. Units that later reservations rely
    /// on are refunded once those are undone.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, Quota, SlidingLog};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new();
    /// let log = SlidingLog::new(Quota::new(5, Duration::from_secs(60)));
    /// let gate = Gate::builder(log).clock(time.clock()).build();
    /// let (one, other) = (gate.reserve(2)?, gate.reserve(2)?);
    /// time.advance(Duration::from_secs(1));
    /// drop(one);
    /// assert_eq!(gate.snapshot().available(), 1);
    /// other.undo();
    /// assert_eq!(gate.snapshot().available(), 3);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn undo(mut self) {
        match std::mem::replace(&mut self.hold, Hold::Done) {
            Hold::Taken(_, permit) | Hold::Granted(permit) => {
                permit.into_iter().for_each(Permit::undo);
            }
            Hold::Booked(mut booked) => booked.cancel(Cancel::Undo),
            // A permit that was granted to its place and never read is returned, as by any waiter that leaves.
            Hold::Queued(mut place) => place.reserved = false,
            Hold::Other(pending) => pending.undo(),
            Hold::Done => {}
        }
    }

    /// Returns the time from the making of the reservation until it is ready; `None` if that depends on permits that
    /// other callers return.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.ready_at().map(|ready_at| ready_at.since(self.made_at))
    }

    /// Returns the moment at which the reservation was made.
    #[must_use]
    pub fn made_at(&self) -> Moment {
        self.made_at
    }

    /// Returns the moment at which the reservation is ready, if that is known.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, ManualClock, Queue, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let rate = Gate::builder(TokenBucket::per_second(4)).clock(ManualClock::new().clock()).build();
    /// let (_used, next) = (rate.reserve(4)?, rate.reserve(1)?);
    /// assert_eq!(next.ready_at(), Some(next.made_at().plus(Duration::from_millis(250))));
    ///
    /// // A place in a queue is ready when a permit is returned, which cannot be known.
    /// let pool = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(1)).build();
    /// let (_running, queued) = (pool.reserve(1)?, pool.reserve(1)?);
    /// assert_eq!(queued.ready_at(), None);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    #[must_use]
    pub fn ready_at(&self) -> Option<Moment> {
        self.ready_at.is_known().then_some(self.ready_at)
    }

    /// Blocks the thread until the reservation is ready.
    ///
    /// ```
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(1)).clock(ManualClock::new().clock()).build();
    /// let permit = gate.reserve(1)?.wait_blocking()?;
    /// assert_eq!(permit.cost(), 1);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the limiter was closed, or the reservation held a place in the queue and lost it.
    pub fn wait_blocking(self) -> Result<Permit<'a>, Denied> {
        crate::blocking::wait(self)
    }
}

impl<'a> Future for Reservation<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let ready_at = this.ready_at;
        let answer = match &mut this.hold {
            Hold::Taken(_, permit) | Hold::Granted(permit) => {
                permit.take().ok_or_else(|| Denied::new(Reason::Closed))
            }
            Hold::Booked(booked) => match booked.poll(ready_at, cx) {
                Poll::Ready(permit) => Ok(permit),
                Poll::Pending => return Poll::Pending,
            },
            Hold::Queued(place) => match place.poll(cx.waker()) {
                Poll::Ready(answer) => answer,
                Poll::Pending => return Poll::Pending,
            },
            Hold::Other(future) => match Pin::new(future).poll(cx) {
                Poll::Ready(answer) => answer,
                Poll::Pending => return Poll::Pending,
            },
            Hold::Done => Err(Denied::new(Reason::Closed)),
        };
        this.hold = Hold::Done;
        Poll::Ready(answer)
    }
}

impl<'a> Booked<'a> {
    pub(crate) fn new(owner: Owner<'a>, id: u64, demand: Demand) -> Self {
        Self {
            owner,
            id,
            demand,
            sleep: None,
            ended: false,
        }
    }

    fn poll(&mut self, ready_at: Moment, cx: &mut Context<'_>) -> Poll<Permit<'a>> {
        let owner = &self.owner;
        let sleep = self
            .sleep
            .get_or_insert_with(|| owner.get().clock().sleep_until(ready_at));
        Pin::new(sleep).poll(cx).map(|()| {
            self.ended = true;
            let era = owner.get().redeem(self.id, ready_at);
            owner.clone().permit(self.demand.granted(ready_at), era)
        })
    }

    fn cancel(&mut self, how: Cancel) {
        if !std::mem::replace(&mut self.ended, true) {
            let priority = self.demand.priority;
            self.owner.get().cancel(self.id, priority, how);
        }
    }
}

impl Drop for Booked<'_> {
    fn drop(&mut self) {
        self.cancel(Cancel::InTime);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // Bookings and places in a queue are released by their own parts. A permit of a rate that was taken at once is
        // refunded in the same instant only: from the next one on it counts as used.
        let (in_time, permit) = match &mut self.hold {
            Hold::Taken(owner, permit) => {
                let now = owner.get().clock().precise_now();
                (now <= self.ready_at, permit.take())
            }
            Hold::Granted(permit) => (true, permit.take()),
            _ => return,
        };
        if let Some(permit) = permit
            && in_time
        {
            permit.undo();
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("made_at", &self.made_at)
            .field("ready_at", &self.ready_at())
            .finish_non_exhaustive()
    }
}
