use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::acquire::{Door, Place, Turnstile};
use super::core::Core;
use super::inside::Turn;
use crate::clock::Sleep;
use crate::demand::Patience;
use crate::events::EventKind;
use crate::queue::{Evicted, Status};
use crate::{Demand, Denied, Moment, Permit, Reason, Refusal, Rule};

/// A permit that was taken now and may be used later. See [`Limiter::reserve`](crate::Limiter::reserve).
///
/// Awaiting it waits for its time and yields the permit. Dropping it before cancels it: at or before its
/// time that gives back what nobody who reserved later has been put behind; afterwards nothing.
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
    Other(Box<dyn Future<Output = Result<Permit<'a>, Denied>> + Send + Unpin + 'a>),
    Done,
}

struct Booked<'a> {
    gate: &'a dyn Turnstile,
    id: u64,
    demand: Demand,
    sleep: Option<Sleep>,
    used: bool,
}

impl<'a> Reservation<'a> {
    /// A reservation of a limiter that is not a [`Gate`](crate::Gate): made at one moment, ready at
    /// another if that is known, and cancelled when `permit` is dropped.
    pub fn from_future(
        made_at: Moment,
        ready_at: Option<Moment>,
        permit: impl Future<Output = Result<Permit<'a>, Denied>> + Send + Unpin + 'a,
    ) -> Self {
        Self {
            hold: Hold::Other(Box::new(permit)),
            made_at,
            ready_at: ready_at.unwrap_or(Moment::NEVER),
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
            self.used = true;
            Permit::new(gate, self.demand.granted(ready_at), gate.gives_back())
        })
    }
}

impl Drop for Booked<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.gate.cancel(self.id);
        }
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
            let deadline = match (demand.patience, turn.rule.longest_wait()) {
                (Patience::Unlimited, Some(longest)) => now.plus(longest),
                (patience, _) => patience.deadline(now),
            };
            self.hold(turn, demand, deadline)
                .map_err(|refusal| self.refused(turn, demand, refusal))
        });
        if held.is_err() {
            self.tick_if_due(now);
        }
        let (hold, ready_at) = held?;
        Ok(Reservation {
            hold,
            made_at: now,
            ready_at,
        })
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
        if R::BOOKS && demand.cost > 0 && turn.inside.waiters.is_empty() {
            let mut ahead = turn.state.clone();
            if let Some(ready_at) = turn.rule.book(&mut ahead, now, demand.cost) {
                if ready_at > deadline {
                    return Err(Refusal::until(ready_at));
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
                    used: false,
                };
                return Ok((Hold::Booked(booked), ready_at));
            }
        }
        let taken = |taken| {
            let permit = Permit::new(self, demand.granted(taken), R::GIVES_BACK);
            (Hold::Taken(self, Some(permit)), taken)
        };
        let refusal = match turn.take(demand) {
            Ok(()) => {
                turn.inside.counts.granted += 1;
                return Ok(taken(now));
            }
            Err(refusal) => refusal,
        };
        let ticket;
        let mut ready_at = Moment::NEVER;
        if R::GIVES_BACK {
            ticket = turn.enqueue(demand, refusal)?;
        } else {
            ready_at = turn.turn_of(demand, Evicted::NOBODY);
            if ready_at > deadline {
                return Err(Refusal::until(ready_at));
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
