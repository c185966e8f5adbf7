//! A process that borrows, and what it says to the store.

use std::time::Duration;

use plimsoll::{Gate, ManualClock, Moment, Quota, Standing, TokenBucket};
use plimsoll_redis::Borrow;
use plimsoll_redis::simulation::{Batch, Borrower};

use super::model::{Fleet, Outage, Sharing};

#[derive(Clone, Copy)]
pub(super) enum Event {
    Arrive(usize),
    /// Something arrives at the store.
    Asked(Message),
    /// The answer arrives at the process.
    Answered(Message, Reply),
    /// Nobody waits for this any longer.
    TimedOut(Message),
    Sweep(usize),
    Cut(usize),
    Restart(usize),
    RestartStore,
}

#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) process: usize,
    /// On which connection of which life of the process.
    pub(super) stream: u64,
    pub(super) number: u64,
    /// By the clock of the process.
    pub(super) asked: Moment,
    pub(super) what: What,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Batch(Batch),
    /// One, for one who has waited too often.
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
    /// The batch that is on its way, and whether somebody waits for the first of it.
    pub(super) fetch: Option<(u64, bool)>,
    /// For how many batches each has waited who waits for this one.
    pub(super) waiting: Vec<u32>,
    /// Those who ask for themselves.
    pub(super) alone: Vec<u64>,
    pub(super) left_alone_until: u64,
    pub(super) local: Option<(ManualClock, Gate<TokenBucket>)>,
}

impl Process {
    /// One of so many that has just started, at this moment of its own clock.
    pub(super) fn new(fleet: &Fleet, processes: u32, now: Moment, stream: u64) -> Self {
        let (borrow, outage) = match fleet.sharing {
            Sharing::Borrowed { borrow, outage, .. } => (borrow, outage),
            Sharing::Assigned { .. } => (Borrow::new(), Outage::Deny),
        };
        let local = (outage == Outage::Local).then(|| {
            let clock = ManualClock::new();
            // As much as its part of the whole.
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
