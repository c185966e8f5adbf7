use std::ops::Add;

use crate::class::Class;
use crate::histogram::{Histogram, percentile_of};
use crate::num::{NANOS, index, millis};
use crate::second::{Counts, Second};
use crate::simulation::Simulation;
use crate::summary::{self, Summary};

/// What a limit made of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The name of the limit.
    pub limit: String,
    /// What chance was drawn from.
    pub seed: u64,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Phase by phase.
    pub phases: Vec<Summary>,
    /// How many requests were still on their way at the end: in the server, at the gate, or about to try again.
    pub inside: u64,
}

impl Run {
    /// Of the whole run.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.seconds
            .iter()
            .map(Second::counts)
            .fold(Counts::default(), Counts::add)
    }
}

/// The state of things between two events.
#[derive(Clone, Copy)]
pub(crate) struct Gauges {
    pub(crate) limit: u32,
    pub(crate) in_flight: u32,
    pub(crate) waiting: u32,
}

/// Writes down what happens. Time only moves on.
pub(crate) struct Recorder<'s> {
    simulation: &'s Simulation,
    seconds: Vec<Second>,
    open: Second,
    /// Latencies of the open second.
    latencies: Vec<u64>,
    /// Latencies of each phase.
    phases: Vec<Histogram>,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(simulation: &'s Simulation) -> Self {
        Self {
            simulation,
            seconds: Vec::with_capacity(simulation.seconds()),
            open: Second::default(),
            latencies: Vec::new(),
            phases: vec![Histogram::new(); simulation.phases.len()],
        }
    }

    /// Closes the seconds before `now`, in which nothing has changed since the last event. Says how many are closed.
    pub(crate) fn pass(&mut self, now: u64, gauges: Gauges) -> usize {
        let current = index(now / NANOS);
        while self.seconds.len() < current {
            self.close(gauges);
        }
        self.seconds.len()
    }

    fn close(&mut self, gauges: Gauges) {
        let middle = self.seconds.len() as u64 * NANOS + NANOS / 2;
        let mut second = std::mem::take(&mut self.open);
        second.p50_ms = percentile_of(&mut self.latencies, 0.5).map(millis);
        second.p99_ms = percentile_of(&mut self.latencies, 0.99).map(millis);
        second.limit = Some(gauges.limit).filter(|limit| *limit < u32::MAX);
        second.in_flight = gauges.in_flight;
        second.waiting = gauges.waiting;
        second.ideal = self.simulation.ideal_at(middle);
        self.latencies.clear();
        self.seconds.push(second);
    }

    pub(crate) fn offered(&mut self, class: Class) {
        self.open.classes[class].offered += 1;
    }

    pub(crate) fn rejected(&mut self, class: Class) {
        self.open.classes[class].rejected += 1;
    }

    pub(crate) fn answered(&mut self, class: Class, latency: u64) {
        let counts = &mut self.open.classes[class];
        if latency <= self.simulation.deadline {
            counts.good += 1;
        } else {
            counts.late += 1;
        }
        self.latencies.push(latency);
        let second = self.seconds.len();
        for (phase, histogram) in self.simulation.phases.iter().zip(&mut self.phases) {
            if phase.range().contains(&second) {
                histogram.add(latency);
            }
        }
    }

    /// Sums up. Every second must have passed.
    pub(crate) fn finish(self, limit: &str, seed: u64, inside: u64) -> Run {
        let phases = self.simulation.phases.iter().zip(&self.phases);
        let sum = |(phase, latencies)| summary::sum_up(phase, &self.seconds, latencies);
        Run {
            limit: limit.to_owned(),
            seed,
            phases: phases.map(sum).collect(),
            seconds: self.seconds,
            inside,
        }
    }
}
