//! The fluid model of a server: the best possible throughput and latency, against which limits are measured.

use crate::num::NANOS;
use crate::pauses::Pauses;
use crate::simulation::{Simulation, Stop};

/// The best that a server can do at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fluid {
    /// The requests per second that can be handled, including those that fail.
    pub(crate) capacity: f64,
    /// The latency of a request without waiting, in seconds.
    pub(crate) latency: f64,
    /// The share of the answers that are no errors.
    success: f64,
    /// The capacity per second of each station that only some requests need, and the share of requests that need it.
    side: [Option<(f64, f64)>; MOST_SIDES],
}

/// Maximum number of optional stations in the model. Further ones are ignored.
const MOST_SIDES: usize = 8;

impl Fluid {
    /// The goodput of `admitted` requests per second: of the requests that need a station, those above its capacity are
    /// lost.
    pub(crate) fn good(&self, admitted: f64) -> f64 {
        let mut part = self.success;
        for (capacity, share) in self.side.iter().flatten() {
            let served = (capacity / (admitted * share)).min(1.0);
            part *= 1.0 - share * (1.0 - served);
        }
        admitted * part
    }

    /// The requests per second of the clients of the closed loop if no request waited. Their measured rate is no
    /// substitute: a limit that makes clients wait reduces it. `None` if the mean think time is infinite.
    pub(crate) fn clients(&self, simulation: &Simulation) -> Option<f64> {
        let clients = simulation.traffic.clients?;
        let think = clients.think.mean()? / NANOS as f64;
        Some(f64::from(clients.count) / (think + self.latency))
    }

    /// The number of requests inside if the server is full and no request waits, by Little's law.
    pub(crate) fn inside(&self) -> f64 {
        self.capacity * self.latency
    }
}

/// One station at one moment.
struct Stage {
    share: f64,
    /// The mean time at a worker, errors included, in seconds.
    time: f64,
    /// The share of its answers that are errors.
    fails: f64,
}

fn stage(simulation: &Simulation, stop: &Stop, now: u64) -> Stage {
    let model = &stop.model;
    let nanos = NANOS as f64;
    let mean = model.service.mean(now).unwrap_or(f64::INFINITY) / nanos;
    let work = mean * model.slow_down.at(now);
    let (mut time, mut left) = (0.0, 1.0_f64);
    for failures in &model.failures {
        let of = failures
            .class
            .map_or(1.0, |class| simulation.traffic.shares[class].at(now));
        let share = (failures.share.at(now) * of).min(left);
        let after = failures.after.and_then(|after| after.mean());
        time += share * after.map_or(work, |after| after / nanos);
        left -= share;
    }
    Stage {
        share: stop.share.at(now),
        time: time + left * work,
        fails: 1.0 - left,
    }
}

/// The fluid model of the server at a moment.
pub(crate) fn at(simulation: &Simulation, now: u64) -> Fluid {
    let stages: Vec<Stage> = simulation
        .stations
        .iter()
        .map(|stop| stage(simulation, stop, now))
        .collect();
    let mut fluid = Fluid {
        capacity: f64::INFINITY,
        latency: 0.0,
        success: 1.0,
        side: [None; MOST_SIDES],
    };
    let mut sides = fluid.side.iter_mut();
    for (index, (stop, stage)) in simulation.stations.iter().zip(&stages).enumerate() {
        let reach = fluid.success;
        let mut time = stage.time;
        if stop.holds {
            let after = stages[index + 1..].iter();
            time += after.map(|later| later.share * later.time).sum::<f64>();
        }
        let model = &stop.model;
        if let Some(workers) = &model.workers {
            let workers = workers.at(now).floor();
            let running = model.pauses.map_or(1.0, Pauses::share_running);
            // With contention, fewer requests at a time may have more throughput.
            let busy = model
                .contention
                .above
                .map_or(workers, |above| above.min(workers));
            let done = |busy: f64| busy / model.contention.factor(busy, workers);
            let capacity = done(busy).max(done(workers)) * running / time;
            if stage.share >= 1.0 {
                fluid.capacity = fluid.capacity.min(capacity / reach);
            } else if stage.share > 0.0
                && let Some(side) = sides.next()
            {
                *side = Some((capacity, stage.share * reach));
            }
        }
        fluid.latency += stage.share * reach * stage.time;
        fluid.success *= 1.0 - stage.share * stage.fails;
    }
    again(simulation, &mut fluid);
    fluid
}

/// Adds the retries of failed requests, so that each request costs more and more requests succeed.
fn again(simulation: &Simulation, fluid: &mut Fluid) {
    let retries = simulation.traffic.retries.filter(|retries| retries.failed);
    let fails = 1.0 - fluid.success;
    if let Some(retries) = retries
        && fails > 0.0
        && fluid.success > 0.0
    {
        let most = retries.budget.unwrap_or(f64::INFINITY);
        let tries = i32::try_from(retries.times).unwrap_or(i32::MAX);
        let (mut again, mut part) = (0.0, 1.0);
        for _ in 0..tries.min(100) {
            part *= fails;
            again += part;
        }
        let again = again.min(most);
        fluid.capacity /= 1.0 + again;
        fluid.success = (fluid.success * (1.0 + again)).min(1.0);
    }
}
