//! Runs a simulation with one limit.

use plimsoll::adaptive::Limit;

use crate::simulate::simulate;
use crate::{Contender, Run, Simulation, oracle};

/// Runs a simulation with a limit. The same seed gives the same run, on any machine.
///
/// The traffic depends on the seed alone, so that limits can be compared: arrivals, their classes and their service times are drawn
/// from generators of their own.
///
/// ```
/// use plimsoll_sim::{Contender, Simulation, run};
///
/// let simulation = Simulation::from_text("overload.yaml", "
///     name: overload
///     duration: 10s
///     rate: 300
///     workers: 10
///     service: 50ms
/// ")?;
/// let (limited, free) = (Contender::fixed(14), Contender::none());
/// let (limited, free) = (run(&simulation, &limited, 1), run(&simulation, &free, 1));
/// assert_eq!(limited.counts().offered, free.counts().offered);
/// assert!(limited.counts().good > free.counts().good);
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[must_use]
pub fn run(simulation: &Simulation, contender: &Contender, seed: u64) -> Run {
    run_watched(simulation, contender, seed, &mut |_| {})
}

/// [`run`] with progress: calls `watch` with the number of virtual seconds that have passed, after each of them.
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
