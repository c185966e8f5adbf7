use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plimsoll::{Outcome, Queue};

use crate::access_log::AccessLog;
use crate::class::CLASSES;
use crate::contender::Contender;
use crate::expect::Expectation;
use crate::num::{NANOS, index};
use crate::phase::Phase;
use crate::profile::Profile;
use crate::station::StationModel;
use crate::work::Work;

/// A description of traffic, of a server, and of what a limit between them should achieve.
///
/// It is read from a file in YAML or JSON; the README of this crate explains the format.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Whole seconds, in nanoseconds.
    pub(crate) duration: u64,
    pub(crate) deadline: u64,
    pub(crate) traffic: Traffic,
    /// The share of the traffic of each process, summing up to 1. Each has a gate of its own before the same server.
    pub(crate) processes: Vec<f64>,
    /// The parts of the server, in the order in which a request passes them.
    pub(crate) stations: Vec<Stop>,
    pub(crate) queue: Option<WaitingRoom>,
    /// What a limit hears of an answer after the deadline.
    pub(crate) late_outcome: Outcome,
    /// Whether work is dropped when its client has left, at the deadline.
    pub(crate) drops_late: bool,
    pub(crate) phases: Vec<Phase>,
    /// What a perfect limiter would get answered in time, a second; `None`: what the server can do.
    pub(crate) ideal: Option<Profile>,
    pub(crate) limit: Contender,
    /// Requests as they came once, in place of the rate and the bursts.
    pub(crate) log: Option<Arc<AccessLog>>,
    pub(crate) expectations: Vec<Expectation>,
    /// What the oracle has found to be best for each phase, once it was asked.
    pub(crate) best: Arc<OnceLock<Vec<f64>>>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// Requests a second of the open loop.
    pub(crate) rate: Profile,
    pub(crate) bursts: Option<Bursts>,
    pub(crate) clients: Option<Clients>,
    pub(crate) retries: Option<Retries>,
    /// The share of each class, summing up to 1 at all times.
    pub(crate) shares: [Profile; CLASSES.len()],
}

/// Another rate for a while, again and again, from the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bursts {
    pub(crate) every: u64,
    pub(crate) length: u64,
    pub(crate) rate: f64,
}

/// A closed loop: each of them asks, waits for its answer, thinks, and asks again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients {
    pub(crate) count: u32,
    pub(crate) think: Work,
}

/// What clients do when they are refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    pub(crate) times: u32,
    /// Before the first, in nanoseconds.
    pub(crate) delay: u64,
    /// What each delay is longer by than the one before.
    pub(crate) factor: f64,
    /// The longest delay.
    pub(crate) most: u64,
    /// The part of the delay by which it is longer or shorter by chance, from 0 to 1.
    pub(crate) jitter: f64,
    /// How many retries there may be for each request, on the whole.
    pub(crate) budget: Option<f64>,
    /// Whether who is refused tries again.
    pub(crate) refused: bool,
    /// Whether who gets an error tries again.
    pub(crate) failed: bool,
}

/// Where requests wait at the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingRoom {
    pub(crate) queue: Queue,
    /// The bound of the queue and its timeout, which it keeps to itself.
    pub(crate) bound: u64,
    pub(crate) timeout: Option<u64>,
}

/// A part of the server, and who passes it.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) name: String,
    /// The share of the requests that need it.
    pub(crate) share: Profile,
    /// Whether its worker, and its permit, are held until the request is answered.
    pub(crate) holds: bool,
    /// A limit of its own before it.
    pub(crate) gate: Option<InnerGate>,
    pub(crate) model: StationModel,
}

/// A gate before a part of the server.
#[derive(Clone, Debug)]
pub(crate) struct InnerGate {
    pub(crate) limit: Contender,
    pub(crate) queue: Option<WaitingRoom>,
}

impl Simulation {
    /// Sets the requests of an access log, in place of the rate and the bursts.
    #[must_use]
    pub fn access_log(mut self, log: AccessLog) -> Self {
        self.log = Some(Arc::new(log));
        self.best = Arc::default();
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is about, in a sentence.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// How long it lasts, in virtual time.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration)
    }

    /// What is summed up on its own.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The limit that the file is about, to which its expectations apply.
    #[must_use]
    pub fn limit(&self) -> &Contender {
        &self.limit
    }

    /// How many whole seconds it lasts.
    pub(crate) fn seconds(&self) -> usize {
        index(self.duration / NANOS)
    }

    /// Whether some answers may be errors.
    pub(crate) fn may_fail(&self) -> bool {
        let fails = |stop: &Stop| stop.gate.is_some() || !stop.model.failures.is_empty();
        self.stations.iter().any(fails)
    }
}

impl Traffic {
    pub(crate) fn rate_at(&self, now: u64) -> f64 {
        match self.bursts {
            Some(bursts) if now % bursts.every < bursts.length => bursts.rate,
            _ => self.rate.at(now),
        }
    }

    pub(crate) fn peak(&self) -> f64 {
        let burst = self.bursts.map_or(0.0, |bursts| bursts.rate);
        self.rate.peak().max(burst)
    }
}
