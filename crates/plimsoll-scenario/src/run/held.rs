//! The permits, pending requests and reservations of a scenario, and their results.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{Acquire, Denied, Moment, Permit, Reservation};

use crate::report::Mismatch;
use crate::spec::Outcome;

/// A refusal, in the words of the format.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) by: Option<String>,
    /// The units that the limiter still has, including those that it currently grants to no request.
    pub(crate) remaining: u64,
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self {
            reason: denied.reason().as_str(),
            retry_after: denied.retry_after(),
            by: denied.limiter().map(str::to_owned),
            remaining: denied.remaining(),
        }
    }
}

/// The state of one request.
pub(crate) enum HeldPermit<'a> {
    Permit(Permit<'a>),
    /// The permit of a reservation, which can still be cancelled.
    Used(Permit<'a>),
    Waiting(Acquire<'a>),
    Reserved(Reservation<'a>),
    Denied(Refusal),
    Cancelled,
    /// A granted request whose permit has been released, merged into another or forgotten.
    Gone,
}

impl<'a> HeldPermit<'a> {
    /// Polls a waiting request. A reservation with a known time is not polled, because that could use it, and a later step may
    /// cancel it.
    pub(crate) fn settle(&mut self) {
        match self {
            Self::Waiting(acquire) => {
                if let Some(answer) = poll(acquire) {
                    *self = answer.map_or_else(|denied| Self::Denied(denied.into()), Self::Permit);
                }
            }
            Self::Reserved(reservation) if reservation.ready_at().is_none() => {
                self.use_reservation();
            }
            _ => {}
        }
    }

    /// Converts a reservation whose time has come into a permit.
    fn use_reservation(&mut self) {
        if let Self::Reserved(reservation) = self
            && let Some(answer) = poll(reservation)
        {
            *self = answer.map_or_else(|denied| Self::Denied(denied.into()), Self::Used);
        }
    }

    /// The state of the request at `now`. A reservation can still be cancelled at exactly its time, so it is polled only before and
    /// after.
    pub(crate) fn outcome(&mut self, now: Moment) -> Outcome {
        if let Self::Reserved(reservation) = self
            && reservation.ready_at() == Some(now)
        {
            return Outcome::Granted;
        }
        self.use_reservation();
        match self {
            Self::Permit(_) | Self::Used(_) | Self::Gone => Outcome::Granted,
            Self::Waiting(_) | Self::Reserved(_) => Outcome::Pending,
            Self::Denied(_) => Outcome::Denied,
            Self::Cancelled => Outcome::Cancelled,
        }
    }

    /// The permit, if there is one. Converts a reservation whose time has come.
    fn permit(&mut self) -> Option<&mut Permit<'a>> {
        self.use_reservation();
        match self {
            Self::Permit(permit) | Self::Used(permit) => Some(permit),
            _ => None,
        }
    }

    /// Takes the permit out.
    fn take_permit(&mut self) -> Option<Permit<'a>> {
        self.permit()?;
        match std::mem::replace(self, Self::Gone) {
            Self::Permit(permit) | Self::Used(permit) => Some(permit),
            _ => None,
        }
    }

    /// Cancels a waiting request or a reservation. Has no effect on any other state.
    fn cancel(&mut self) {
        if matches!(self, Self::Waiting(_) | Self::Reserved(_) | Self::Used(_)) {
            *self = Self::Cancelled;
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    // No waker is needed: the step that moves the clock polls again.
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// All requests of a scenario until it ends. Permits without a name are stored too, because dropping them would return them.
#[derive(Default)]
pub(crate) struct Holdings<'a> {
    held: Vec<HeldPermit<'a>>,
    names: HashMap<String, usize>,
}

impl<'a> Holdings<'a> {
    /// Stores `held`. A name that is used again refers to the new one; the old one is kept without a name.
    pub(crate) fn keep(&mut self, name: Option<&str>, held: HeldPermit<'a>) {
        if let Some(name) = name {
            self.names.insert(name.to_owned(), self.held.len());
        }
        self.held.push(held);
    }

    pub(crate) fn get(&mut self, name: &str) -> Option<&mut HeldPermit<'a>> {
        let index = *self.names.get(name)?;
        self.held.get_mut(index)
    }

    pub(crate) fn settle(&mut self) {
        self.held.iter_mut().for_each(HeldPermit::settle);
    }

    /// Drops a permit. Dropping it again is harmless.
    pub(crate) fn release(&mut self, name: &str) -> Result<(), Mismatch> {
        match self.get(name) {
            Some(HeldPermit::Gone) => Ok(()),
            _ => self.take_permit(name).map(drop),
        }
    }

    pub(crate) fn forget_permit(&mut self, name: &str) -> Result<(), Mismatch> {
        self.take_permit(name).map(Permit::forget)
    }

    pub(crate) fn cancel(&mut self, name: &str) {
        if let Some(held) = self.get(name) {
            held.cancel();
        }
    }

    /// Splits `cost` off the permit `name` as the permit `part`.
    pub(crate) fn split(&mut self, name: &str, cost: u64, part: &str) -> Result<(), Mismatch> {
        let permit = self.permit(name)?;
        let whole = permit.cost();
        let split = permit.split(cost);
        let split = split.ok_or_else(|| Mismatch::named(name, format!("to hold {cost}"), whole))?;
        self.keep(Some(part), HeldPermit::Permit(split));
        Ok(())
    }

    /// Merges the permit `other` into the permit `name`.
    pub(crate) fn merge(&mut self, name: &str, other: &str) -> Result<(), Mismatch> {
        self.permit(name)?;
        let permit = self.take_permit(other)?;
        let Err(permit) = self.permit(name)?.merge(permit) else {
            return Ok(());
        };
        self.keep(None, HeldPermit::Permit(permit));
        Err(Mismatch::named(
            other,
            "to be of the same limiter",
            "another",
        ))
    }

    fn permit(&mut self, name: &str) -> Result<&mut Permit<'a>, Mismatch> {
        let got = self.describe(name);
        self.get(name)
            .and_then(HeldPermit::permit)
            .ok_or_else(|| Mismatch::named(name, "to hold a permit", got))
    }

    fn take_permit(&mut self, name: &str) -> Result<Permit<'a>, Mismatch> {
        let got = self.describe(name);
        self.get(name)
            .and_then(HeldPermit::take_permit)
            .ok_or_else(|| Mismatch::named(name, "to hold a permit", got))
    }

    fn describe(&mut self, name: &str) -> &'static str {
        match self.get(name) {
            Some(HeldPermit::Waiting(_) | HeldPermit::Reserved(_)) => "pending",
            Some(HeldPermit::Denied(_)) => "denied",
            Some(HeldPermit::Cancelled) => "cancelled",
            _ => "one that is gone",
        }
    }
}
