use std::ops::Add;

use hdrhistogram::Histogram;

use crate::class::Class;
use crate::fluid;
use crate::num::{NANOS, index, millis, seconds, whole};
use crate::second::{RequestCounts, Second};
use crate::simulation::Simulation;
use crate::summary::{self, Summary};
use crate::traffic::RequestKind;

/// The results of one run: one limit, one seed.
///
/// [`counts`](Self::counts) has the requests that ended, and [`inside`](Self::inside) the others.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The name of the limit.
    pub limit: String,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The counts and the state of each second.
    pub seconds: Vec<Second>,
    /// The summary of each phase.
    pub phases: Vec<Summary>,
    /// The number of unfinished requests at the end: in the server, at the gate, or before a retry.
    pub inside: u64,
}

impl Run {
    /// The counts of the whole run.
    #[must_use]
    pub fn counts(&self) -> RequestCounts {
        self.seconds
            .iter()
            .map(Second::counts)
            .fold(RequestCounts::default(), RequestCounts::add)
    }
}

/// The limit, the requests in flight and the waiters between two events.
#[derive(Clone, Copy)]
pub(crate) struct Gauges {
    pub(crate) limit: u64,
    pub(crate) in_flight: u32,
    pub(crate) waiting: u32,
}

/// The number of requests by which a second may exceed an ideal that the file states, if earlier seconds left as many.
const TOGETHER: f64 = 10.0;

/// Records a run, in order of time.
pub(crate) struct Recorder<'s> {
    simulation: &'s Simulation,
    seconds: Vec<Second>,
    open: Second,
    /// The requests of the clients of the closed loop in the open second.
    from_clients: u64,
    /// The requests that a perfect limiter would answer in a later second, before their deadline.
    carried: f64,
    /// The requests that idle workers of the perfect limiter could begin at once, beyond their capacity per second.
    idle: f64,
    /// Latencies of the open second.
    latencies: Vec<u64>,
    phases: Vec<Seen>,
}

/// The records of a phase in addition to those of its seconds.
struct Seen {
    latencies: Histogram<u64>,
    /// The requests answered before the deadline, by process.
    good: Vec<u64>,
}

impl<'s> Recorder<'s> {
    pub(crate) fn new(simulation: &'s Simulation) -> Self {
        let seen = || Seen {
            latencies: latencies(),
            good: vec![0; simulation.processes.len()],
        };
        Self {
            simulation,
            seconds: Vec::with_capacity(simulation.seconds()),
            open: Second::default(),
            from_clients: 0,
            carried: 0.0,
            idle: f64::INFINITY,
            latencies: Vec::new(),
            phases: simulation.phases.iter().map(|_| seen()).collect(),
        }
    }

    /// Closes the seconds before `now`, in which nothing has changed since the last event. Returns the number of closed seconds.
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
        second.limit = Some(gauges.limit).filter(|limit| *limit < u64::MAX);
        second.in_flight = gauges.in_flight;
        second.waiting = gauges.waiting;
        second.ideal = self.ideal(second.counts().offered, middle);
        self.latencies.clear();
        self.seconds.push(second);
    }

    /// The requests that a perfect limiter would have answered in the second around `middle`, in which `offered` arrived.
    ///
    /// It is bounded by the capacity of the server, and by the arrivals of this second and those left from earlier seconds. The
    /// number left is what can still be answered before the deadline. With a deadline of a second or less it is 0; work that
    /// takes longer than a second is not cut off at the end of the second. Idle workers that take longer than a second for a
    /// request can each begin one. An ideal that the file states is a mean: a few requests that come together are not above it.
    fn ideal(&mut self, offered: u64, middle: u64) -> f64 {
        let fluid = fluid::at(self.simulation, middle);
        let stated = self.simulation.ideal.as_ref().map(|ideal| ideal.at(middle));
        let capacity = stated.unwrap_or(fluid.capacity);
        let clients = std::mem::take(&mut self.from_clients);
        let loops = match fluid.clients(self.simulation) {
            Some(rate) => (offered - clients) as f64 + rate,
            None => offered as f64,
        };
        let wanted = loops + self.carried;
        let most = match stated {
            Some(_) => capacity + TOGETHER,
            None => capacity.max(fluid.inside()),
        };
        let possible = (self.idle + capacity).min(most);
        let answered = wanted.min(possible);
        self.idle = possible - answered;
        let later = (seconds(self.simulation.deadline) - 1.0).max(0.0);
        // An infinite demand leaves no requests to later seconds.
        self.carried = (wanted - answered).min(capacity * later).max(0.0);
        if stated.is_some() {
            answered
        } else {
            fluid.good(answered)
        }
    }

    pub(crate) fn offered(&mut self, kind: RequestKind, by_client: bool) {
        self.open.classes[kind.class].offered += 1;
        self.from_clients += u64::from(by_client);
    }

    pub(crate) fn failed(&mut self, class: Class) {
        self.open.classes[class].failed += 1;
    }

    pub(crate) fn rejected(&mut self, class: Class) {
        self.open.classes[class].rejected += 1;
    }

    pub(crate) fn answered(&mut self, kind: RequestKind, latency: u64) {
        let counts = &mut self.open.classes[kind.class];
        let good = latency <= self.simulation.deadline;
        if good {
            counts.good += 1;
        } else {
            counts.late += 1;
        }
        self.latencies.push(latency);
        let second = self.seconds.len();
        for (phase, seen) in self.simulation.phases.iter().zip(&mut self.phases) {
            if phase.range().contains(&second) {
                seen.good[kind.process] += u64::from(good);
                // The histogram grows as needed.
                let _ = seen.latencies.record(latency);
            }
        }
    }

    /// Returns the run. Every second must have passed.
    pub(crate) fn finish(self, limit: &str, seed: u64, inside: u64) -> Run {
        let phases = self.simulation.phases.iter().zip(&self.phases);
        let shares = &self.simulation.processes;
        let sum = |(phase, seen): (_, &Seen)| Summary {
            fairness: summary::fairness(&seen.good, shares),
            ..summary::sum_up(phase, &self.seconds, &seen.latencies)
        };
        Run {
            limit: limit.to_owned(),
            seed,
            phases: phases.map(sum).collect(),
            seconds: self.seconds,
            inside,
        }
    }
}

/// An empty histogram of nanoseconds with percentiles exact to 0.1 %.
fn latencies() -> Histogram<u64> {
    match Histogram::new(3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("three digits are allowed: {error}"),
    }
}

/// The `p`-quantile of the values. `None` if there are none. Reorders them.
fn percentile_of(values: &mut [u64], p: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let at = index(whole(p * values.len() as f64)).min(last);
    let (_, value, _) = values.select_nth_unstable(at);
    Some(*value as f64)
}
