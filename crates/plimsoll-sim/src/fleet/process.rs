//! A process that borrows, and its messages to the store.

use std::time::Duration;

use plimsoll::{Gate, ManualClock, Moment, Quota, Standing, TokenBucket};
use plimsoll_redis::Borrow;
use plimsoll_redis::simulation::{Batch, Borrower};

use super::model::{Fleet, Outage, Sharing};

#[derive(Clone, Copy)]
pub(super) enum Event {
    Arrive(usize),
    /// A message arrives at the store.
    Asked(Message),
    /// The answer arrives at the process.
    Answered(Message, Reply),
    /// The time-out of a message has passed.
    TimedOut(Message),
    Sweep(usize),
    Cut(usize),
    Restart(usize),
    RestartStore,
}

#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) process: usize,
    /// The connection, which is unique to one life of the process.
    pub(super) stream: u64,
    pub(super) number: u64,
    /// The time of the request, by the clock of the process.
    pub(super) asked: Moment,
    pub(super) what: What,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Batch(Batch),
    /// One token for a request that has waited for too many batches.
    One,
    GiveBack(u64),
}

#[derive(Clone, Copy)]
pub(super) enum Reply {
    Granted(u64, Standing),
    Refused(Duration),
}

pub(super) struct Process {
    pub(super) borrower: Borrower,
    pub(super) stream: u64,
    /// The batch in flight, and whether a request waits for its first token.
    pub(super) fetch: Option<(u64, bool)>,
    /// For each request that waits for the batch, the number of batches it has waited for.
    pub(super) waiting: Vec<u32>,
    /// The requests that ask the store on their own.
    pub(super) alone: Vec<u64>,
    pub(super) left_alone_until: u64,
    pub(super) local: Option<(ManualClock, Gate<TokenBucket>)>,
}

impl Process {
    /// A process of a fleet of `processes` that has just started, at `now` by its own clock.
    pub(super) fn new(fleet: &Fleet, processes: u32, now: Moment, stream: u64) -> Self {
        let (borrow, outage) = match fleet.sharing {
            Sharing::Borrowed { borrow, outage, .. } => (borrow, outage),
            Sharing::Assigned { .. } => (Borrow::new(), Outage::Deny),
        };
        let local = (outage == Outage::Local).then(|| {
            let clock = ManualClock::new();
            // The equal part of the limit.
            let period = Duration::from_secs(u64::from(processes));
            let burst = (fleet.burst / u64::from(processes)).max(1);
            let bucket = TokenBucket::greedy(Quota::new(fleet.rate, period)).burst(burst);
            let gate = Gate::builder(bucket).clock(clock.clock()).build();
            (clock, gate)
        });
        Self {
            borrower: Borrower::new(borrow, fleet.burst, now),
            stream,
            fetch: None,
            waiting: Vec::new(),
            alone: Vec::new(),
            left_alone_until: 0,
            local,
        }
    }
}
