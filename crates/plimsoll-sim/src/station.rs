//! Stations, the parts of the server: model and state.

use std::collections::VecDeque;

use plimsoll::Outcome;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::chance::{Chance, generator_of};
use crate::class::Class;
use crate::mix::Mix;
use crate::num::{whole, whole32};
use crate::pauses::Pauses;
use crate::profile::Profile;
use crate::work::Work;

/// The model of the server, or of a station of it.
#[derive(Clone, Debug)]
pub(crate) struct StationModel {
    /// The number of workers. `None` means unlimited: a pure delay.
    pub(crate) workers: Option<Profile>,
    pub(crate) service: Mix,
    /// The factor on the service time.
    pub(crate) slow_down: Profile,
    pub(crate) contention: Contention,
    pub(crate) pauses: Option<Pauses>,
    pub(crate) failures: Vec<Failures>,
}

/// The slowdown under load: `factor` for each multiple of the workers by which the requests inside exceed `above`.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Contention {
    pub(crate) factor: f64,
    /// The number of requests without a slowdown. Default: the number of workers.
    pub(crate) above: Option<f64>,
}

/// A share of the answers that are errors.
#[derive(Clone, Debug)]
pub(crate) struct Failures {
    pub(crate) share: Profile,
    /// The only class that fails. `None`: all.
    pub(crate) class: Option<Class>,
    /// The outcome that the limit sees.
    pub(crate) outcome: Outcome,
    /// The time until the failure. `None`: the service time.
    pub(crate) after: Option<Work>,
}

impl Contention {
    /// The factor on the service time with `inside` requests in the station.
    pub(crate) fn factor(self, inside: f64, workers: f64) -> f64 {
        let above = self.above.unwrap_or(workers);
        if inside > above && workers > 0.0 {
            1.0 + self.factor * (inside - above) / workers
        } else {
            1.0
        }
    }
}

/// Workers, and an unlimited FIFO queue before them. Unless jobs are removed when their clients leave, the station works on
/// jobs without clients: the cause of congestion collapse.
pub(crate) struct Station<'s, J> {
    model: &'s StationModel,
    rng: Pcg64Mcg,
    failing: Pcg64Mcg,
    workers: u32,
    busy: u32,
    inside: u32,
    queue: VecDeque<(Class, J)>,
}

/// A job that a worker has begun, its end, and its outcome for the limit if it fails.
pub(crate) struct Begun<J> {
    pub(crate) end: u64,
    pub(crate) job: J,
    pub(crate) failed: Option<Outcome>,
}

impl<'s, J> Station<'s, J> {
    pub(crate) fn new(model: &'s StationModel, seed: u64, index: usize) -> Self {
        let mut station = Self {
            model,
            rng: generator_of(seed, Chance::Service, index),
            failing: generator_of(seed, Chance::Failures, index),
            workers: u32::MAX,
            busy: 0,
            inside: 0,
            queue: VecDeque::new(),
        };
        station.change(0);
        station
    }

    /// Accepts a job. Returns the job that a free worker begins, if there is one.
    pub(crate) fn admit(&mut self, now: u64, class: Class, job: J) -> Option<Begun<J>> {
        self.inside += 1;
        self.queue.push_back((class, job));
        self.begin(now)
    }

    /// Frees a worker, which may begin the next job. The finished job still counts as inside when the next one begins.
    pub(crate) fn done(&mut self, now: u64) -> Option<Begun<J>> {
        self.busy -= 1;
        let begun = self.begin(now);
        self.inside -= 1;
        begun
    }

    /// Updates the number of workers. The caller then calls [`begin`](Self::begin) until it returns `None`.
    pub(crate) fn change(&mut self, now: u64) {
        if let Some(workers) = &self.model.workers {
            self.workers = whole32(workers.at(now));
        }
    }

    /// Begins the next job on a free worker. `None` if there is no job or no free worker.
    pub(crate) fn begin(&mut self, now: u64) -> Option<Begun<J>> {
        if self.busy >= self.workers {
            return None;
        }
        let (class, job) = self.queue.pop_front()?;
        self.busy += 1;
        let failure = self.fails(now, class);
        let work = match failure.and_then(|failure| failure.after) {
            Some(after) => after.draw(&mut self.failing),
            None => self.work(now),
        };
        let work = whole(work).max(1);
        let end = match self.model.pauses {
            Some(pauses) => pauses.end(now, work),
            None => now.saturating_add(work),
        };
        Some(Begun {
            end,
            job,
            failed: failure.map(|failure| failure.outcome),
        })
    }

    /// Removes the `late` jobs from the queue, and returns them.
    pub(crate) fn drop_waiting(&mut self, late: impl Fn(&J) -> bool) -> Vec<J> {
        let mut dropped = Vec::new();
        while let Some(at) = self.queue.iter().position(|(_, job)| late(job)) {
            dropped.extend(self.queue.remove(at).map(|(_, job)| job));
            self.inside -= 1;
        }
        dropped
    }

    fn work(&mut self, now: u64) -> f64 {
        let model = self.model;
        let mut work = model.service.draw(now, &mut self.rng) * model.slow_down.at(now);
        if model.workers.is_some() {
            let (inside, workers) = (f64::from(self.inside), f64::from(self.workers));
            work *= model.contention.factor(inside, workers);
        }
        work
    }

    /// Draws whether a request of this class fails, and how.
    fn fails(&mut self, now: u64, class: Class) -> Option<&'s Failures> {
        if self.model.failures.is_empty() {
            return None;
        }
        let mut at = self.failing.random::<f64>();
        let mut own = self.model.failures.iter();
        own.find(|failures| {
            let share = match failures.class {
                Some(of) if of != class => 0.0,
                _ => failures.share.at(now),
            };
            let fails = at < share;
            at -= share;
            fails
        })
    }
}
