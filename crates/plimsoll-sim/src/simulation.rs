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

/// A description of traffic, of a server, and of the results that a limit between them should achieve.
///
/// It is read from a file in YAML or JSON; the README of this crate explains the format. [`run`](fn@crate::run) runs it with one limit and
/// one seed, a [`Comparison`](crate::Comparison) with several of both.
///
/// ```
/// use plimsoll_sim::{Contender, Simulation, run};
///
/// let simulation = Simulation::from_text("steady.yaml", "
///     name: steady
///     duration: 10s
///     rate: 100
///     workers: 10
///     service: 50ms
/// ")?;
/// // 100 requests per second of 50 ms keep half of ten workers busy.
/// let run = run(&simulation, &Contender::none(), 1);
/// assert_eq!(run.counts().rejected, 0);
/// assert!(run.phases[0].goodput > Some(0.99));
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The duration in nanoseconds, a multiple of a second.
    pub(crate) duration: u64,
    pub(crate) deadline: u64,
    pub(crate) traffic: Traffic,
    /// The share of the traffic of each process, summing up to 1. Each has a gate of its own before the same server.
    pub(crate) processes: Vec<f64>,
    /// The parts of the server, in the order in which a request passes them.
    pub(crate) stations: Vec<Stop>,
    pub(crate) queue: Option<WaitingRoom>,
    /// The outcome that a limit sees for an answer after the deadline.
    pub(crate) late_outcome: Outcome,
    /// Whether work is dropped when its client has left, at the deadline.
    pub(crate) drops_late: bool,
    pub(crate) phases: Vec<Phase>,
    /// The goodput per second of a perfect limiter. `None`: the capacity of the server.
    pub(crate) ideal: Option<Profile>,
    pub(crate) limit: Contender,
    /// Recorded arrivals, which replace the rate and the bursts.
    pub(crate) log: Option<Arc<AccessLog>>,
    pub(crate) expectations: Vec<Expectation>,
    /// The best limit of each phase, once the oracle has searched for it.
    pub(crate) best: Arc<OnceLock<Vec<f64>>>,
}

/// The traffic model.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// The rate of the open loop, in requests per second.
    pub(crate) rate: Profile,
    pub(crate) bursts: Option<Bursts>,
    pub(crate) clients: Option<Clients>,
    pub(crate) retries: Option<Retries>,
    /// The share of each class, summing up to 1 at all times.
    pub(crate) shares: [Profile; CLASSES.len()],
}

/// Bursts: another rate for `length` of every `every`, from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bursts {
    pub(crate) every: u64,
    pub(crate) length: u64,
    pub(crate) rate: f64,
}

/// A closed loop: each client sends a request, waits for its answer, thinks, and sends the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients {
    pub(crate) count: u32,
    pub(crate) think: Work,
}

/// The retries of clients after a refusal or an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    pub(crate) times: u32,
    /// The delay before the first retry, in nanoseconds.
    pub(crate) delay: u64,
    /// The factor from one delay to the next.
    pub(crate) factor: f64,
    /// The longest delay.
    pub(crate) most: u64,
    /// The fraction of a delay by which it is randomly longer or shorter, from 0 to 1.
    pub(crate) jitter: f64,
    /// The largest ratio of retries to requests, overall.
    pub(crate) budget: Option<f64>,
    /// Whether clients retry after a refusal.
    pub(crate) refused: bool,
    /// Whether clients retry after an error.
    pub(crate) failed: bool,
}

/// The queue at the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingRoom {
    pub(crate) queue: Queue,
    /// The bound of the queue and its time-out, which [`Queue`] does not expose.
    pub(crate) bound: u64,
    pub(crate) timeout: Option<u64>,
}

/// A part of the server, and the requests that pass it.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) name: String,
    /// The share of the requests that need this part.
    pub(crate) share: Profile,
    /// Whether its worker, and its permit, are held until the request is answered.
    pub(crate) holds: bool,
    /// The gate before this part, if it has one.
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
    /// Replaces the rate and the bursts by the arrivals of an access log. The duration stays: later requests of the log are
    /// left out.
    #[must_use]
    pub fn access_log(mut self, log: AccessLog) -> Self {
        self.log = Some(Arc::new(log));
        self.best = Arc::default();
        self
    }

    /// The name of the simulation: `name` of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description of the simulation: `about` of the file. Empty if it has none.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The duration of a run, in virtual time. Whole seconds.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration)
    }

    /// The phases, each with a [`Summary`](crate::Summary) of its own. A file without `phases` has one, named `all`.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The limit of the file, to which its expectations apply. Default: the algorithm `verdict`.
    #[must_use]
    pub fn limit(&self) -> &Contender {
        &self.limit
    }

    /// The duration in whole seconds.
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
