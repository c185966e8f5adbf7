//! A limit that knows the server.

use std::time::Duration;

use plimsoll::adaptive::{Limit, Load, Sample};

use crate::fluid;
use crate::num::whole;
use crate::simulation::Simulation;

/// A fifth more than are inside a server that is full, and one.
pub(crate) fn limit(simulation: &Simulation, process: usize) -> Box<dyn Limit> {
    let mut oracle = Oracle {
        simulation: simulation.clone(),
        process,
        limit: 1,
    };
    oracle.look(0);
    Box::new(oracle)
}

#[derive(Debug)]
struct Oracle {
    simulation: Simulation,
    process: usize,
    limit: u64,
}

impl Oracle {
    fn look(&mut self, now: u64) {
        let inside =
            fluid::at(&self.simulation, now).inside() * self.simulation.processes[self.process];
        self.limit = whole(1.2 * inside + 1e-6).saturating_add(1);
    }
}

impl Limit for Oracle {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn sample(&mut self, _sample: &Sample) {}

    fn tick_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(100))
    }

    fn tick(&mut self, load: Load) {
        self.look(load.now.as_nanos());
    }
}
