use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::Simulation;
use crate::chance::{Chance, generator};
use crate::class::{CLASSES, Class, NORMAL};
use crate::num::{NANOS, whole};

/// The arrivals of the open loop: a Poisson process whose rate changes, by thinning one of the greatest rate.
pub(crate) struct Arrivals<'s> {
    simulation: &'s Simulation,
    rng: Pcg64Mcg,
    classes: Classes,
    peak: f64,
    /// Seconds.
    now: f64,
    /// What is left of a log, which takes the place of chance.
    log: Option<std::vec::IntoIter<u64>>,
}

impl<'s> Arrivals<'s> {
    pub(crate) fn new(simulation: &'s Simulation, seed: u64) -> Self {
        Self {
            simulation,
            rng: generator(seed, Chance::Arrivals),
            classes: Classes::new(simulation, seed),
            peak: simulation.traffic.peak(),
            now: 0.0,
            log: simulation
                .log
                .as_ref()
                .map(|log| log.arrivals(seed).into_iter()),
        }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = (u64, Class);

    fn next(&mut self) -> Option<(u64, Class)> {
        if let Some(log) = &mut self.log {
            let at = log.next().filter(|at| *at < self.simulation.duration)?;
            return Some((at, self.classes.draw()));
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
                return Some((now, self.classes.draw()));
            }
        }
    }
}

/// Who is how important.
pub(crate) struct Classes {
    shares: [f64; CLASSES.len()],
    rng: Pcg64Mcg,
}

impl Classes {
    pub(crate) fn new(simulation: &Simulation, seed: u64) -> Self {
        Self {
            shares: simulation.traffic.shares,
            rng: generator(seed, Chance::Classes),
        }
    }

    pub(crate) fn draw(&mut self) -> Class {
        let mut at = self.rng.random::<f64>();
        for (class, share) in self.shares.iter().enumerate() {
            if at < *share {
                return class;
            }
            at -= share;
        }
        // Shares that sum up to a hair less than 1.
        self.shares
            .iter()
            .rposition(|share| *share > 0.0)
            .unwrap_or(NORMAL)
    }
}
