use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::acquire::{Door, Place, Turnstile};
use super::bookings::{Cancel, Refund};
use super::core::Core;
use super::inside::Turn;
use crate::clock::Sleep;
use crate::demand::Patience;
use crate::events::EventKind;
use crate::queue::{Evicted, Status};
use crate::stamp::Stamp;
use crate::{Demand, Denied, Moment, Outcome, Permit, Priority, Reason, Refusal, Rule};

/// A permit that was taken now and may be used later. See [`Limiter::reserve`](crate::Limiter::reserve).
///
/// Awaiting it waits for its time and yields the permit. Dropping it before cancels it: at or before its
/// time that gives back what nobody who reserved later has been put behind; afterwards nothing.
/// [`undo`](Self::undo) is for those who know that it has not been used.
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

enum Hold<'a> {
    /// It could be taken at once.
    Taken(&'a dyn Turnstile, Option<Permit<'a>>),
    /// It was taken ahead of time.
    Booked(Booked<'a>),
    /// It holds a place in the queue.
    Queued(Place<'a>),
    /// Another limiter's.
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

/// One of which nothing is known but that it becomes a permit.
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
        // Before its time dropping it gives it back; from then on it is a permit, which can be undone.
        let ready = Pin::new(&mut *self).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(Ok(permit)) = ready {
            permit.undo();
        }
    }
}

struct Booked<'a> {
    gate: &'a dyn Turnstile,
    id: u64,
    demand: Demand,
    sleep: Option<Sleep>,
    ended: bool,
}

impl<'a> Reservation<'a> {
    /// A reservation of a limiter that is not a [`Gate`](crate::Gate): made at one moment, ready at
    /// another if that is known, and cancelled when `permit` is dropped.
    pub fn from_future(
        made_at: Moment,
        ready_at: Option<Moment>,
        permit: impl Future<Output = Result<Permit<'a>, Denied>> + Send + Unpin + 'a,
    ) -> Self {
        Self::of(made_at, ready_at, Foreign(permit))
    }

    /// [`from_future`](Self::from_future), of one that knows how to be undone.
    pub(crate) fn of(
        made_at: Moment,
        ready_at: Option<Moment>,
        permit: impl Pending<'a> + 'a,
    ) -> Self {
        Self {
            hold: Hold::Other(Box::new(permit)),
            made_at,
            ready_at: ready_at.unwrap_or(Moment::NEVER),
        }
    }

    /// Cancels it as if it had never been made, at whatever moment: for those who reserve from several limiters and are
    /// refused by one of them.
    ///
    /// Unlike dropping it, which counts it as used from its time on. What others who reserved later have been put
    /// behind comes back when they too are undone.
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
            Hold::Taken(_, permit) => permit.into_iter().for_each(Permit::undo),
            Hold::Booked(mut booked) => booked.cancel(Cancel::Undo),
            // What was granted to its place and never read goes back, as to any waiter that leaves.
            Hold::Queued(mut place) => place.reserved = false,
            Hold::Other(pending) => pending.undo(),
            Hold::Done => {}
        }
    }

    /// How long it had to be waited for when it was made; `None` if that depends on others giving
    /// back.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.ready_at().map(|ready_at| ready_at.since(self.made_at))
    }

    /// When it may be used, if that is known.
    #[must_use]
    pub fn ready_at(&self) -> Option<Moment> {
        self.ready_at.is_known().then_some(self.ready_at)
    }

    /// Waits for its time, blocking the thread.
    ///
    /// # Errors
    ///
    /// If the limiter was closed, or the reservation held a place in the queue and lost it.
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
            Hold::Taken(_, permit) => permit.take().ok_or_else(|| Denied::new(Reason::Closed)),
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
    fn poll(&mut self, ready_at: Moment, cx: &mut Context<'_>) -> Poll<Permit<'a>> {
        let gate = self.gate;
        let sleep = self
            .sleep
            .get_or_insert_with(|| gate.clock().sleep_until(ready_at));
        Pin::new(sleep).poll(cx).map(|()| {
            self.ended = true;
            let era = gate.redeem(self.id, ready_at);
            Permit::new(gate, self.demand.granted(ready_at), gate.gives_back()).in_era(era)
        })
    }

    fn cancel(&mut self, how: Cancel) {
        if !std::mem::replace(&mut self.ended, true) {
            self.gate.cancel(self.id, self.demand.priority, how);
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
        // What is booked or queued is given up by its own parts. What was taken at once from a rate is
        // given back in the same instant only: from the next one on it counts as used.
        if let Hold::Taken(gate, permit) = &mut self.hold
            && let Some(permit) = permit.take()
            && gate.clock().precise_now() <= self.ready_at
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

impl<R: Rule> Core<R> {
    pub(super) fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let now = self.clock.precise_now();
        let held = self.enter(now, |turn| {
            let made_at = turn.now;
            let deadline = match (demand.patience, turn.rule.longest_wait()) {
                (Patience::Unlimited, Some(longest)) => made_at.plus(longest),
                (patience, _) => patience.deadline(made_at),
            };
            let held = self.hold(turn, demand, deadline);
            let (hold, ready_at) = held.map_err(|refusal| self.refused(turn, demand, refusal))?;
            Ok(Reservation {
                hold,
                made_at,
                ready_at,
            })
        });
        if held.is_err() {
            self.tick_if_due(now);
        }
        held
    }

    /// Takes now, ahead of time, or holds a place: whichever this rule can do.
    fn hold<'a>(
        &'a self,
        turn: &mut Turn<'_, R>,
        demand: Demand,
        deadline: Moment,
    ) -> Result<(Hold<'a>, Moment), Refusal> {
        turn.admissible(demand)?;
        let now = turn.now;
        // Ahead of those who wait nothing can be taken.
        if demand.cost > 0
            && turn.inside.waiters.is_empty()
            && let Some((ahead, ready_at)) = turn.rule.book(turn.state, now, demand.cost)
        {
            if ready_at > deadline {
                let refusal = turn.rule.peek(turn.state, now, demand.cost).err();
                let reason = refusal.map_or(Reason::Exhausted, |refusal| refusal.reason);
                return Err(Refusal::until(ready_at).because(reason));
            }
            *turn.state = ahead;
            turn.inside.counts.granted += 1;
            turn.tell(EventKind::Processing {
                priority: demand.priority,
            });
            let booked = Booked {
                gate: self,
                id: turn.inside.bookings.add(demand.cost, now, ready_at),
                demand,
                sleep: None,
                ended: false,
            };
            return Ok((Hold::Booked(booked), ready_at));
        }
        let taken = |taken: Stamp| {
            let permit =
                Permit::new(self, taken.grant(demand), R::RETURNS_PERMITS).in_era(taken.era);
            (Hold::Taken(self, Some(permit)), taken.at)
        };
        let refusal = match turn.take(demand) {
            Ok(()) => {
                turn.inside.counts.granted += 1;
                return Ok(taken(turn.stamp()));
            }
            Err(refusal) => refusal,
        };
        let ticket;
        let mut ready_at = Moment::NEVER;
        if R::RETURNS_PERMITS {
            ticket = turn.enqueue(demand, refusal)?;
        } else {
            ready_at = turn.turn_of(demand, Evicted::NOBODY);
            if ready_at > deadline {
                return Err(Refusal::until(ready_at).because(refusal.reason));
            }
            ticket = turn.join(demand, Moment::NEVER);
            turn.serve();
        }
        if let Some(Status::Granted(at)) = turn.inside.waiters.status(ticket) {
            turn.inside.waiters.free(ticket);
            return Ok(taken(at));
        }
        let place = Place::new(Door::Borrowed(self), ticket, demand, true);
        Ok((Hold::Queued(place), ready_at))
    }
}

impl<R: Rule> Turn<'_, R> {
    /// Cancels what was taken ahead of time.
    pub(super) fn cancel(&mut self, booking: u64, priority: Priority, how: Cancel) {
        let (rule, now) = (self.rule, self.now);
        let Self { inside, state, .. } = self;
        let mut refunded = 0;
        let known = inside.bookings.cancel(booking, now, how, |refund: Refund| {
            rule.refund(state, now, refund.taken, refund.cost);
            refunded += refund.cost;
        });
        if known && how == Cancel::Undo {
            self.inside.counts.undone += 1;
            let demand = Demand::of(refunded).priority(priority);
            self.tell_processed(demand.granted(now), Outcome::Ignore);
        }
        if refunded > 0 {
            self.inside.forecast.forget();
            self.serve();
        }
    }
}
