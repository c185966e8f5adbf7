use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::bookings::Cancel;
use super::core::{Core, Shortly};
use crate::demand::Patience;
use crate::grant::Era;
use crate::queue::{Status, Ticket};
use crate::stamp::Stamp;
use crate::sync::Ordering;
use crate::{
    Demand, Denied, Grant, Limiter, Moment, Packed, Permit, Priority, Reason, Refusal, Rule, Source,
};

/// Waits for a permit. See [`Limiter::acquire`](crate::Limiter::acquire).
///
/// Dropping it leaves the queue at once and serves whoever can then run. Whatever was granted in the
/// last moment goes back.
#[must_use = "futures do nothing unless they are polled"]
pub struct Acquire<'a>(Stage<'a>);

enum Stage<'a> {
    Asking(Door<'a>, Demand),
    Queued(Place<'a>),
    Answered(Result<Permit<'a>, Denied>),
    Start(&'a dyn Start<'a>, Demand),
    AtOnce(&'a dyn Limiter, Demand),
    Other(BoxAcquire<'a>),
    Done,
}

/// Any way to wait for a permit.
pub(crate) type BoxAcquire<'a> =
    Pin<Box<dyn Future<Output = Result<Permit<'a>, Denied>> + Send + 'a>>;

/// A limiter that is not a gate and grants without allocating: only a caller that has to wait needs a future.
pub(crate) trait Start<'a>: Sync {
    /// Takes at once, or says how to wait.
    fn start(&'a self, demand: Demand) -> Result<Permit<'a>, BoxAcquire<'a>>;
}

/// A gate, whatever its rule.
pub(super) trait Turnstile: Source {
    /// Takes at once or joins the queue.
    fn ask(&self, demand: &Demand, waker: &Waker) -> Result<Asked, Denied>;
    /// What has become of a place in the queue.
    fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Stamp, Denied>>;
    /// Gives a place in the queue up.
    fn leave(&self, ticket: Ticket, cost: u32, reserved: bool);
    /// Gives back what was taken ahead of time.
    fn cancel(&self, booking: u64, priority: Priority, how: Cancel);
    /// Settles what was taken ahead of time when its time has come.
    fn redeem(&self, booking: u64, ready_at: Moment) -> Era;
    /// Whether permits are given back.
    fn gives_back(&self) -> bool;
    fn clock(&self) -> &crate::Clock;
}

/// The gate that somebody stands before.
#[derive(Clone)]
pub(super) enum Door<'a> {
    Borrowed(&'a dyn Turnstile),
    Shared(Arc<dyn Turnstile>),
}

impl<'a> Door<'a> {
    fn get(&self) -> &dyn Turnstile {
        match self {
            Self::Borrowed(gate) => *gate,
            Self::Shared(gate) => &**gate,
        }
    }

    fn permit(self, grant: Grant, era: Era) -> Permit<'a> {
        let gives_back = self.get().gives_back();
        let permit = match self {
            Self::Borrowed(gate) => Permit::new(gate, grant, gives_back),
            Self::Shared(gate) => Permit::shared(gate, grant, gives_back),
        };
        permit.in_era(era)
    }
}

pub(super) enum Asked {
    /// And whether it is known when.
    Granted(Stamp, bool),
    Queued(Ticket),
}

/// A place in the queue of a gate, given up when it is dropped.
pub(super) struct Place<'a> {
    pub(super) gate: Door<'a>,
    pub(super) ticket: Ticket,
    pub(super) cost: u32,
    pub(super) priority: Priority,
    pub(super) reserved: bool,
    /// Whether the answer has been read: then the place has another owner by now.
    pub(super) settled: bool,
}

impl<'a> Place<'a> {
    pub(super) fn new(gate: Door<'a>, ticket: Ticket, demand: Demand, reserved: bool) -> Self {
        Self {
            gate,
            ticket,
            cost: demand.cost,
            priority: demand.priority,
            reserved,
            settled: false,
        }
    }

    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<Permit<'a>, Denied>> {
        let answer = self.gate.get().poll(self.ticket, waker);
        self.settled = answer.is_ready();
        answer.map_ok(|taken| {
            let demand = Demand::of(self.cost).priority(self.priority);
            self.gate.clone().permit(taken.grant(demand), taken.era)
        })
    }
}

impl<'a> Acquire<'a> {
    pub(super) fn new(gate: &'a dyn Turnstile, demand: Demand) -> Self {
        Self(Stage::Asking(Door::Borrowed(gate), demand))
    }

    pub(super) fn owned(gate: Arc<dyn Turnstile>, demand: Demand) -> Self {
        Self(Stage::Asking(Door::Shared(gate), demand))
    }

    /// An answer that is known already, for limiters in which nobody waits.
    pub fn ready(answer: Result<Permit<'a>, Denied>) -> Self {
        Self(Stage::Answered(answer))
    }

    pub(crate) fn starting(limiter: &'a dyn Start<'a>, demand: Demand) -> Self {
        Self(Stage::Start(limiter, demand))
    }

    /// For limiters that never wait: the first poll asks [`Limiter::try_acquire`], and nothing is allocated.
    pub fn at_once(limiter: &'a dyn Limiter, demand: Demand) -> Self {
        Self(Stage::AtOnce(limiter, demand))
    }

    /// Any other way to wait, for limiters that are not a [`Gate`](crate::Gate).
    pub fn from_future(
        future: impl Future<Output = Result<Permit<'a>, Denied>> + Send + 'a,
    ) -> Self {
        Self(Stage::Other(Box::pin(future)))
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stage = &mut self.0;
        if let Stage::Answered(_) = stage {
            return match std::mem::replace(stage, Stage::Done) {
                Stage::Answered(answer) => Poll::Ready(answer),
                _ => Poll::Pending,
            };
        }
        if let Stage::Start(limiter, demand) = *stage {
            match limiter.start(demand) {
                Ok(permit) => {
                    *stage = Stage::Done;
                    return Poll::Ready(Ok(permit));
                }
                Err(wait) => *stage = Stage::Other(wait),
            }
        }
        let answer = match stage {
            Stage::Asking(gate, demand) => {
                let demand = *demand;
                match gate.get().ask(&demand, cx.waker()) {
                    Ok(Asked::Granted(taken, timed)) => {
                        let grant = Grant {
                            timed,
                            ..taken.grant(demand)
                        };
                        Ok(gate.clone().permit(grant, taken.era))
                    }
                    Ok(Asked::Queued(ticket)) => {
                        let place = Place::new(gate.clone(), ticket, demand, false);
                        *stage = Stage::Queued(place);
                        return Poll::Pending;
                    }
                    Err(denied) => Err(denied),
                }
            }
            Stage::Queued(place) => match place.poll(cx.waker()) {
                Poll::Ready(answer) => answer,
                Poll::Pending => return Poll::Pending,
            },
            Stage::AtOnce(limiter, demand) => limiter.try_acquire(*demand),
            Stage::Other(future) => match future.as_mut().poll(cx) {
                Poll::Ready(answer) => answer,
                Poll::Pending => return Poll::Pending,
            },
            // A future must not be polled after it is done; nothing is lost by saying no.
            Stage::Done | Stage::Answered(_) | Stage::Start(..) => Err(Denied::new(Reason::Closed)),
        };
        *stage = Stage::Done;
        Poll::Ready(answer)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.gate.get().leave(self.ticket, self.cost, self.reserved);
        }
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Stage::Asking(..) => "Acquire(asking)",
            Stage::Queued(_) => "Acquire(queued)",
            Stage::Start(..) | Stage::AtOnce(..) | Stage::Other(_) | Stage::Answered(_) => {
                "Acquire"
            }
            Stage::Done => "Acquire(done)",
        })
    }
}

impl<R: Rule> Turnstile for Core<R> {
    fn ask(&self, demand: &Demand, waker: &Waker) -> Result<Asked, Denied> {
        let demand = *demand;
        if R::Fast::TIMELESS {
            if demand.cost > 0
                && matches!(
                    self.take_short(Moment::ORIGIN, demand.cost),
                    Shortly::Granted
                )
            {
                self.totals.granted();
                let undated = Stamp {
                    at: Moment::ORIGIN,
                    era: Era::default(),
                };
                return Ok(Asked::Granted(undated, false));
            }
        } else if let Some(now) = self.clock.now_if(!self.is_parked())
            && demand.cost > 0
            && matches!(self.take_short(now, demand.cost), Shortly::Granted)
        {
            self.totals.granted();
            let era = Era::default();
            return Ok(Asked::Granted(Stamp { at: now, era }, true));
        }
        // To wait for a time, know the time. Waiting for others to give back, it hardly matters.
        let patient = R::RETURNS_PERMITS && self.patient.load(Ordering::Relaxed);
        let now = if patient && demand.patience == Patience::Unlimited {
            self.clock.now()
        } else {
            self.clock.precise_now()
        };
        // Cloned and dropped outside of the lock: either may run anything.
        let mut waker = Some(waker.clone());
        let answer = self.enter(now, |turn| {
            let refusal = match turn.take(demand) {
                Ok(()) => {
                    turn.inside.counts.granted += 1;
                    return Ok(Asked::Granted(turn.stamp(), true));
                }
                Err(refusal) => refusal,
            };
            let never = matches!(refusal.reason, Reason::Closed | Reason::TooLarge);
            if never || demand.is_at_once() {
                return Err(self.refused(turn, demand, refusal));
            }
            match turn.enqueue(demand, refusal) {
                Ok(ticket) => match turn.inside.waiters.status(ticket) {
                    Some(Status::Granted(taken)) => {
                        turn.inside.waiters.free(ticket);
                        Ok(Asked::Granted(taken, true))
                    }
                    _ => {
                        turn.inside.waiters.set_waker(ticket, &mut waker);
                        Ok(Asked::Queued(ticket))
                    }
                },
                Err(refusal) => Err(self.refused(turn, demand, refusal)),
            }
        });
        if answer.is_err() {
            self.tick_if_due(now);
        }
        answer
    }

    fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Stamp, Denied>> {
        match self.look_at(ticket, waker) {
            Status::Waiting => Poll::Pending,
            Status::Granted(taken) => Poll::Ready(Ok(taken)),
            Status::Refused(reason) => Poll::Ready(Err(self.look(|rule, _, state, now| {
                let refusal = Refusal::until_returned().because(reason);
                self.denied(rule, refusal, state, now)
            }))),
        }
    }

    fn leave(&self, ticket: Ticket, cost: u32, reserved: bool) {
        Self::leave(self, ticket, cost, reserved);
    }

    fn cancel(&self, booking: u64, priority: Priority, how: Cancel) {
        self.enter(self.clock.precise_now(), |turn| {
            turn.cancel(booking, priority, how);
        });
    }

    fn redeem(&self, booking: u64, ready_at: Moment) -> Era {
        self.enter(self.clock.precise_now(), |turn| {
            if turn.inside.bookings.redeem(booking) {
                turn.inside.resets.era_at(ready_at)
            } else {
                Era::LOST
            }
        })
    }

    fn gives_back(&self) -> bool {
        R::RETURNS_PERMITS
    }

    fn clock(&self) -> &crate::Clock {
        &self.clock
    }
}
