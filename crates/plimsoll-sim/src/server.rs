use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;

use crate::chance::{Chance, generator};
use crate::num::{whole, whole32};
use crate::simulation::ServerModel;

/// Workers, and an unlimited queue before them, first come, first served. It never learns that a client has given
/// up, so it does work that nobody waits for any more: that is what makes overload collapse.
pub(crate) struct Server<'s, J> {
    model: &'s ServerModel,
    rng: Pcg64Mcg,
    workers: u32,
    busy: u32,
    queue: VecDeque<J>,
}

/// A job that a worker has begun, and when it will be done.
pub(crate) struct Begun<J> {
    pub(crate) end: u64,
    pub(crate) job: J,
}

impl<'s, J> Server<'s, J> {
    pub(crate) fn new(model: &'s ServerModel, seed: u64) -> Self {
        Self {
            model,
            rng: generator(seed, Chance::Service),
            workers: whole32(model.workers.at(0)),
            busy: 0,
            queue: VecDeque::new(),
        }
    }

    /// Takes a job. `in_flight` counts everything in the server, this one included.
    pub(crate) fn admit(&mut self, now: u64, in_flight: u32, job: J) -> Option<Begun<J>> {
        self.queue.push_back(job);
        self.begin(now, in_flight)
    }

    /// A worker is done, and may take the next job. `in_flight` still counts the one that is done.
    pub(crate) fn done(&mut self, now: u64, in_flight: u32) -> Option<Begun<J>> {
        self.busy -= 1;
        self.begin(now, in_flight)
    }

    /// Learns how many workers there are now. Then [`begin`](Self::begin) until there is nothing more to begin.
    pub(crate) fn change(&mut self, now: u64) {
        self.workers = whole32(self.model.workers.at(now));
    }

    /// Gives the next job to a free worker, if there are both.
    pub(crate) fn begin(&mut self, now: u64, in_flight: u32) -> Option<Begun<J>> {
        if self.busy >= self.workers {
            return None;
        }
        let job = self.queue.pop_front()?;
        self.busy += 1;
        let mut work = self.model.service.draw(&mut self.rng) * self.model.slow_down.at(now);
        let workers = f64::from(self.workers);
        if in_flight > self.workers {
            work *= 1.0 + self.model.contention * (f64::from(in_flight) - workers) / workers;
        }
        let work = whole(work).max(1);
        let end = match self.model.pauses {
            Some(pauses) => pauses.end(now, work),
            None => now.saturating_add(work),
        };
        Some(Begun { end, job })
    }
}
