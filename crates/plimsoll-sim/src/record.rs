use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::class::{CLASSES, Class};
use crate::histogram::{Histogram, percentile_of};
use crate::num::{NANOS, index, millis};
use crate::{Simulation, Summary, summary};

/// What became of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counts {
    /// Came, retries not counted.
    pub offered: u64,
    /// Were answered in time.
    pub good: u64,
    /// Were answered too late.
    pub late: u64,
    /// Were refused for good.
    pub rejected: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.good += other.good;
        self.late += other.late;
        self.rejected += other.rejected;
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// One second of a run.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Second {
    /// What came, was answered and was refused in it, by class: critical, normal, non-critical.
    pub classes: [Counts; CLASSES.len()],
    /// The median latency of what was answered in it, from arrival to answer, in milliseconds.
    pub p50_ms: Option<f64>,
    /// Its 99th percentile.
    pub p99_ms: Option<f64>,
    /// The limit at its end; `None` without a limit.
    pub limit: Option<u32>,
    /// How much was in the server at its end.
    pub in_flight: u32,
    /// How many waited at the gate at its end.
    pub waiting: u32,
    /// What a perfect limiter would have had answered in time, if there were enough to answer.
    pub ideal: f64,
}

impl Second {
    /// Of all classes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.classes
            .iter()
            .copied()
            .fold(Counts::default(), Counts::add)
    }
}

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
