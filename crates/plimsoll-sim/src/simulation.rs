use std::sync::Arc;
use std::time::Duration;

use plimsoll::Queue;

use crate::access_log::AccessLog;
use crate::contender::Contender;
use crate::expect::Expectation;
use crate::num::{NANOS, index};
use crate::pauses::Pauses;
use crate::phase::Phase;
use crate::profile::Profile;
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
    pub(crate) server: ServerModel,
    pub(crate) queue: Option<WaitingRoom>,
    pub(crate) phases: Vec<Phase>,
    /// What a perfect limiter would get answered in time, a second; `None`: what the server can do.
    pub(crate) ideal: Option<Profile>,
    pub(crate) limit: Contender,
    /// Requests as they came once, in place of the rate and the bursts.
    pub(crate) log: Option<Arc<AccessLog>>,
    pub(crate) expectations: Vec<Expectation>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// Requests a second of the open loop.
    pub(crate) rate: Profile,
    pub(crate) bursts: Option<Bursts>,
    pub(crate) clients: Option<Clients>,
    pub(crate) retries: Option<Retries>,
    /// The share of each class, summing up to 1.
    pub(crate) shares: [f64; 3],
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
    pub(crate) delay: u64,
}

/// Where requests wait at the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingRoom {
    pub(crate) queue: Queue,
    /// The bound of the queue and its timeout, which it keeps to itself.
    pub(crate) bound: u64,
    pub(crate) timeout: Option<u64>,
}

/// Who answers.
#[derive(Clone, Debug)]
pub(crate) struct ServerModel {
    pub(crate) workers: Profile,
    pub(crate) service: Work,
    /// What the time of service is multiplied by.
    pub(crate) slow_down: Profile,
    /// By how much service slows down for each multiple of the workers that is in flight above them.
    pub(crate) contention: f64,
    pub(crate) pauses: Option<Pauses>,
}

impl Simulation {
    /// Sets the requests of an access log, in place of the rate and the bursts.
    #[must_use]
    pub fn access_log(mut self, log: AccessLog) -> Self {
        self.log = Some(Arc::new(log));
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

    /// What a perfect limiter would get answered in time, a second, if there were enough to answer.
    pub(crate) fn capacity_at(&self, now: u64) -> f64 {
        if let Some(ideal) = &self.ideal {
            return ideal.at(now);
        }
        let running = self.server.pauses.map_or(1.0, Pauses::share_running);
        self.server.workers.at(now).floor() * running / self.service_at(now)
    }

    /// What the clients of the closed loop would ask for, a second, if each was answered without waiting. What they
    /// do ask for says nothing: a limit that keeps them waiting keeps them from asking. `None` if the mean time
    /// of their thinking is infinite.
    pub(crate) fn clients_at(&self, now: u64) -> Option<f64> {
        let clients = self.traffic.clients?;
        let think = clients.think.mean()? / NANOS as f64;
        Some(f64::from(clients.count) / (think + self.service_at(now)))
    }

    /// The mean time of service, in seconds.
    fn service_at(&self, now: u64) -> f64 {
        let mean = self.server.service.mean().unwrap_or(f64::INFINITY) / NANOS as f64;
        mean * self.server.slow_down.at(now)
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
