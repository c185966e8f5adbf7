//! Requests, jobs and events of a run.

use plimsoll::{Outcome, Permit};

use crate::closed_loop::Turn;
use crate::room::Room;
use crate::station::Station;
use crate::subject::Subject;
use crate::traffic::RequestKind;

/// One request of a client, including its retries.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) arrived: u64,
    pub(crate) tries: u32,
    pub(crate) kind: RequestKind,
    /// The turn of its client in the closed loop.
    pub(crate) turn: Option<Turn>,
}

/// A request that was let in.
pub(crate) struct Job<'s> {
    pub(crate) request: Request,
    pub(crate) begun: u64,
    pub(crate) permit: Permit<'s>,
    /// The present or the next station.
    pub(crate) at: usize,
    /// The permit of the gate before that station.
    pub(crate) inner: Option<Permit<'s>>,
    /// The stations whose workers the job holds until it is answered, with their permits.
    pub(crate) held: Vec<(usize, Option<Permit<'s>>)>,
}

impl<'s> Job<'s> {
    pub(crate) fn new(request: Request, begun: u64, permit: Permit<'s>) -> Self {
        Self {
            request,
            begun,
            permit,
            at: 0,
            inner: None,
            held: Vec::new(),
        }
    }
}

/// An event of a run.
pub(crate) enum Event<'s> {
    /// A client retries.
    Retry(Request),
    /// The think time of a client of the closed loop has ended.
    Send(u32),
    /// A client of the closed loop gives up its request.
    GiveUp(Turn),
    /// A worker has finished, with the outcome for the limit if the request failed.
    Done(Job<'s>, Option<Outcome>),
    /// The number of workers of a station may have changed.
    Change(usize),
    /// A client leaves at its deadline, and its work is dropped.
    Leave,
    /// The time-out of a waiter at a gate. The clock must stop here, and the gate refuses the waiter.
    Due,
}

/// A station, with the gate before it and its waiters.
pub(crate) struct Part<'s> {
    pub(crate) station: Station<'s, Job<'s>>,
    pub(crate) gate: Option<(&'s Subject, Room<'s, Job<'s>>)>,
}
