use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::Simulation;
use crate::chance::{Chance, generator};
use crate::class::{Class, NORMAL};
use crate::num::{NANOS, whole};

/// The arrivals of the open loop: a Poisson process whose rate changes. It is drawn by thinning a process with the highest rate.
pub(crate) struct Arrivals<'s> {
    simulation: &'s Simulation,
    rng: Pcg64Mcg,
    kinds: Kinds<'s>,
    peak: f64,
    /// The time of the last arrival, in seconds.
    now: f64,
    /// The remaining arrivals of a log, which replaces the random arrivals.
    log: Option<std::vec::IntoIter<u64>>,
}

impl<'s> Arrivals<'s> {
    pub(crate) fn new(simulation: &'s Simulation, seed: u64) -> Self {
        Self {
            simulation,
            rng: generator(seed, Chance::Arrivals),
            kinds: Kinds::new(simulation, seed),
            peak: simulation.traffic.peak(),
            now: 0.0,
            log: simulation
                .log
                .as_ref()
                .map(|log| log.arrivals().into_iter()),
        }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = (u64, RequestKind);

    fn next(&mut self) -> Option<(u64, RequestKind)> {
        if let Some(log) = &mut self.log {
            let at = log.next().filter(|at| *at < self.simulation.duration)?;
            return Some((at, self.kinds.draw(at)));
        }
        if self.peak <= 0.0 {
            return None;
        }
        loop {
            let gap: f64 = Exp1.sample(&mut self.rng);
            self.now += gap / self.peak;
            let now = whole(self.now * NANOS as f64);
            if now >= self.simulation.duration {
                return None;
            }
            if self.rng.random::<f64>() * self.peak <= self.simulation.traffic.rate_at(now) {
                return Some((now, self.kinds.draw(now)));
            }
        }
    }
}

/// The properties of a request, independent of its outcome.
#[derive(Clone, Copy)]
pub(crate) struct RequestKind {
    pub(crate) class: Class,
    /// The process that receives the request.
    pub(crate) process: usize,
    /// A bit for each station that it needs.
    needs: u32,
}

impl RequestKind {
    pub(crate) fn needs(self, station: usize) -> bool {
        self.needs >> station & 1 == 1
    }
}

/// Draws the class, the process and the stations of requests.
pub(crate) struct Kinds<'s> {
    simulation: &'s Simulation,
    classes: Pcg64Mcg,
    processes: Pcg64Mcg,
    routes: Pcg64Mcg,
}

impl<'s> Kinds<'s> {
    pub(crate) fn new(simulation: &'s Simulation, seed: u64) -> Self {
        Self {
            simulation,
            classes: generator(seed, Chance::Classes),
            processes: generator(seed, Chance::Processes),
            routes: generator(seed, Chance::Routes),
        }
    }

    pub(crate) fn draw(&mut self, now: u64) -> RequestKind {
        let shares = &self.simulation.traffic.shares;
        let class = pick(shares.iter().map(|share| share.at(now)), &mut self.classes);
        let process = match &self.simulation.processes[..] {
            [_] => Some(0),
            several => pick(several.iter().copied(), &mut self.processes),
        };
        let mut needs = 0;
        for (station, stop) in self.simulation.stations.iter().enumerate() {
            let share = stop.share.at(now);
            let needed = share >= 1.0 || self.routes.random::<f64>() < share;
            needs |= u32::from(needed) << station;
        }
        RequestKind {
            class: class.unwrap_or(NORMAL),
            process: process.unwrap_or(0),
            needs,
        }
    }
}

/// Draws an index by the shares.
fn pick(shares: impl Iterator<Item = f64>, rng: &mut Pcg64Mcg) -> Option<usize> {
    let mut at = rng.random::<f64>();
    // The shares may sum up to slightly less than 1.
    let mut last = None;
    for (index, share) in shares.enumerate() {
        if at < share {
            return Some(index);
        }
        at -= share;
        if share > 0.0 {
            last = Some(index);
        }
    }
    last
}
