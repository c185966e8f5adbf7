//! The future of a permit, and the two ways in which a limiter of this crate resolves it without allocating.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use crate::clock::Clock;
use crate::demand::{Demand, Priority};
use crate::denied::Denied;
use crate::grant::{Era, Grant, Shareable};
use crate::moment::Moment;
use crate::permit::Permit;
use crate::queue::Ticket;
use crate::reason::Reason;
use crate::stamp::Stamp;

/// A future that yields a permit. [`Limiter::acquire`](crate::Limiter::acquire) returns it.
///
/// Nothing happens before the first poll.
///
/// # Cancel safety
///
/// Dropping the future leaves the queue at once and serves the waiters that then fit. A permit that was granted but not
/// yet received is returned.
///
/// # Time-outs
///
/// Set a time-out in the [`Demand`](crate::Demand): the limiter then refuses with
/// [`Reason::TimedOut`](crate::Reason::TimedOut), counts the refusal, and refuses at once a demand that is known to
/// wait longer. A time-out around the future, such as that of tokio, drops it, and the limiter counts the demand as
/// cancelled.
///
/// ```
/// use plimsoll::{Concurrency, Demand, Gate, Queue, Reason};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let gate = Gate::builder(Concurrency::new(1)).queue(Queue::fifo(10)).build();
/// let _running = gate.try_acquire(1)?;
/// let denied = gate.acquire(Demand::ONE.within(Duration::from_millis(1))).await.unwrap_err();
/// assert_eq!(denied.reason(), Reason::TimedOut);
/// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
/// ```
///
/// # For authors of limiters
///
/// A custom limiter makes one from an answer that it already has, or from a future:
///
/// ```
/// use plimsoll::{Acquire, Denied, Reason};
///
/// let refused = Acquire::ready(Err(Denied::new(Reason::Closed)));
/// let later = Acquire::from_future(async { Err(Denied::new(Reason::TimedOut)) });
/// # let _ = (refused, later);
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Acquire<'a>(pub(crate) Stage<'a>);

pub(crate) enum Stage<'a> {
    /// A limiter with a queue of its own.
    Queueing(Place<'a>),
    /// A limiter that answers at once or with a future, which has not been asked yet.
    Start(&'a dyn Start<'a>, Demand),
    Answered(Result<Permit<'a>, Denied>),
    Other(BoxAcquire<'a>),
    Done,
}

/// A future that is allocated.
pub(crate) type BoxAcquire<'a> =
    Pin<Box<dyn Future<Output = Result<Permit<'a>, Denied>> + Send + 'a>>;

impl<'a> Acquire<'a> {
    /// A demand for a limiter with a queue of its own, which has not been asked yet.
    #[inline]
    pub(crate) fn of(owner: Owner<'a>, demand: Demand) -> Self {
        Self(Stage::Queueing(Place {
            owner: Some(owner),
            ticket: None,
            demand,
            reserved: false,
        }))
    }

    /// Returns a future that is ready, for limiters without a queue.
    ///
    /// It allocates nothing. The first poll returns the answer; a future that is dropped before that returns its
    /// permit.
    ///
    /// ```
    /// use plimsoll::{Acquire, Concurrency, Demand, Gate, Limiter};
    ///
    /// /// A limiter without a queue answers what `try_acquire` answers.
    /// fn acquire<L: Limiter>(limiter: &L, demand: Demand) -> Acquire<'_> {
    ///     Acquire::ready(limiter.try_acquire(demand))
    /// }
    /// # let _ = acquire(&Gate::new(Concurrency::new(1)), Demand::ONE);
    /// ```
    pub fn ready(answer: Result<Permit<'a>, Denied>) -> Self {
        Self(Stage::Answered(answer))
    }

    /// Wraps a future, for limiters with their own way of waiting.
    ///
    /// The future is allocated. Dropping it must leave the limiter's queue and return the permits that were granted to
    /// it: a future that holds a [`Permit`] only as a local variable does so by itself.
    pub fn from_future(
        future: impl Future<Output = Result<Permit<'a>, Denied>> + Send + 'a,
    ) -> Self {
        Self(Stage::Other(Box::pin(future)))
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, Denied>;

    // Every answer is made where it is returned: copying a permit right after it was written takes longer than writing
    // it.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stage = &mut self.0;
        match stage {
            // The stage stays as it is: changing it would drop and write a value that is not used again.
            Stage::Queueing(place) => return place.poll(cx.waker()),
            Stage::Start(limiter, demand) => match limiter.start(*demand) {
                Ok(permit) => {
                    *stage = Stage::Done;
                    return Poll::Ready(Ok(permit));
                }
                Err(future) => *stage = Stage::Other(future),
            },
            Stage::Answered(_) | Stage::Other(_) | Stage::Done => {}
        }
        let answer = match stage {
            Stage::Other(future) => ready!(future.as_mut().poll(cx)),
            _ => match std::mem::replace(stage, Stage::Done) {
                Stage::Answered(answer) => answer,
                // A future must not be polled after it is done; nothing is lost by a refusal.
                _ => Err(Denied::new(Reason::Closed)),
            },
        };
        *stage = Stage::Done;
        Poll::Ready(answer)
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Stage::Queueing(Place { owner: None, .. }) => "Acquire(done)",
            Stage::Queueing(Place { ticket: None, .. }) => "Acquire(asking)",
            Stage::Queueing(_) => "Acquire(queued)",
            Stage::Start(..) | Stage::Other(_) | Stage::Answered(_) => "Acquire",
            Stage::Done => "Acquire(done)",
        })
    }
}

/// A limiter that answers the first poll at once if it can, and otherwise waits in a future that is allocated then.
pub(crate) trait Start<'a>: Sync {
    /// Takes at once, or returns a future to wait with.
    fn start(&'a self, demand: Demand) -> Result<Permit<'a>, BoxAcquire<'a>>;
}

/// A limiter with a queue: the operations of a gate that [`Acquire`] and [`Reservation`](crate::Reservation) need,
/// whatever its rule.
pub(crate) trait Queueing: Shareable {
    /// Takes at once or joins the queue.
    fn ask(&self, demand: &Demand, waker: &Waker) -> Result<Asked, Denied>;
    /// The status of a place in the queue.
    fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Stamp, Denied>>;
    /// Leaves a place in the queue.
    fn leave(&self, ticket: Ticket, demand: Demand, reserved: bool);
    /// Cancels a booking, and refunds it.
    fn cancel(&self, booking: u64, priority: Priority, how: Cancel);
    /// Settles a booking when its time has come.
    fn redeem(&self, booking: u64, ready_at: Moment) -> Era;
    /// Whether permits are returned.
    fn returns(&self) -> bool;
    fn clock(&self) -> &Clock;
}

/// What [`Queueing::ask`] answers unless it refuses.
pub(crate) enum Asked {
    /// The stamp of the grant, and whether its moment is known.
    Granted(Stamp, bool),
    Queued(Ticket),
}

/// How a reservation is cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// By dropping it. Once its time has come, it counts as used.
    InTime,
    /// As if it had never been made.
    Undo,
}

/// The limiter in whose queue a demand waits.
#[derive(Clone)]
pub(crate) enum Owner<'a> {
    Borrowed(&'a dyn Queueing),
    Shared(Arc<dyn Queueing>),
}

impl<'a> Owner<'a> {
    pub(crate) fn get(&self) -> &dyn Queueing {
        match self {
            Self::Borrowed(limiter) => *limiter,
            Self::Shared(limiter) => &**limiter,
        }
    }

    pub(crate) fn permit(self, grant: Grant, era: Era) -> Permit<'a> {
        let returns = self.get().returns();
        self.permit_that(grant, era, returns)
    }

    /// The same where it is known whether permits are returned.
    #[inline]
    fn permit_that(self, grant: Grant, era: Era, returns: bool) -> Permit<'a> {
        let permit = match self {
            Self::Borrowed(limiter) => Permit::new(limiter, grant, returns),
            Self::Shared(limiter) => Permit::shared(limiter, grant, returns),
        };
        permit.in_era(era)
    }
}

/// A demand on a limiter, and then its place in the queue. Dropping it leaves the queue.
pub(crate) struct Place<'a> {
    /// `None` once the answer has been read: the place may have another owner by now.
    owner: Option<Owner<'a>>,
    /// None before the limiter has been asked.
    ticket: Option<Ticket>,
    demand: Demand,
    pub(crate) reserved: bool,
}

impl<'a> Place<'a> {
    /// The place of a reservation.
    pub(crate) fn reserved(owner: Owner<'a>, ticket: Ticket, demand: Demand) -> Self {
        Self {
            owner: Some(owner),
            ticket: Some(ticket),
            demand,
            reserved: true,
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<Permit<'a>, Denied>> {
        let Some(owner) = &self.owner else {
            // A future must not be polled after it is done; nothing is lost by a refusal.
            return Poll::Ready(Err(Denied::new(Reason::Closed)));
        };
        let mut handed = false;
        let (grant, era) = match self.ticket {
            Some(ticket) => match owner.get().poll(ticket, waker) {
                Poll::Ready(Ok(taken)) => {
                    handed = taken == Stamp::UNDATED;
                    (taken.grant(self.demand), taken.era)
                }
                Poll::Ready(Err(denied)) => {
                    self.owner = None;
                    return Poll::Ready(Err(denied));
                }
                Poll::Pending => return Poll::Pending,
            },
            None => match owner.get().ask(&self.demand, waker) {
                Ok(Asked::Granted(taken, timed)) => {
                    let grant = taken.grant(self.demand);
                    (Grant { timed, ..grant }, taken.era)
                }
                Ok(Asked::Queued(ticket)) => {
                    self.ticket = Some(ticket);
                    return Poll::Pending;
                }
                Err(denied) => {
                    self.owner = None;
                    return Poll::Ready(Err(denied));
                }
            },
        };
        match self.owner.take() {
            Some(owner) => {
                // Only returned permits are handed on.
                let returns = handed || owner.get().returns();
                Poll::Ready(Ok(owner.permit_that(grant, era, returns)))
            }
            None => Poll::Ready(Err(Denied::new(Reason::Closed))),
        }
    }
}

impl Drop for Place<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(owner), Some(ticket)) = (&self.owner, self.ticket) {
            owner.get().leave(ticket, self.demand, self.reserved);
        }
    }
}
