//! Running a limit.

use plimsoll::adaptive::Limit;

use crate::simulate::simulate;
use crate::{Contender, Run, Simulation, oracle};

/// Runs a simulation with a limit. The same seed gives the same run, on any machine.
///
/// The traffic depends on the seed alone, so that limits can be compared: arrivals, their classes and the times of
/// service are drawn from generators of their own.
#[must_use]
pub fn run(simulation: &Simulation, contender: &Contender, seed: u64) -> Run {
    run_watched(simulation, contender, seed, &mut |_| {})
}

/// As [`run`], and says after every virtual second how many have passed.
#[must_use]
pub fn run_watched(
    simulation: &Simulation,
    contender: &Contender,
    seed: u64,
    watch: &mut dyn FnMut(usize),
) -> Run {
    let limit = limits(simulation, contender);
    simulate(simulation, contender.name(), &limit, seed, watch)
}

/// Makes the limit of each process.
pub(crate) fn limits<'s>(
    simulation: &'s Simulation,
    contender: &'s Contender,
) -> impl Fn(usize) -> Box<dyn Limit> + 's {
    |process| match contender.make() {
        Some(limit) => limit,
        None => oracle::limit(simulation, process),
    }
}
