//! One run.

use plimsoll::ManualClock;
use plimsoll::adaptive::{Insight, Limit};

use crate::record::Run;
use crate::simulation::{Simulation, WaitingRoom};
use crate::subject::Subject;
use crate::world::World;

/// Runs a simulation. `limit` makes the limit of each process.
pub(crate) fn simulate(
    simulation: &Simulation,
    name: &str,
    limit: &dyn Fn(usize) -> Box<dyn Limit>,
    seed: u64,
    watch: &mut dyn FnMut(usize),
) -> Run {
    simulate_heard(simulation, name, limit, seed, watch, None)
}

/// [`simulate`] with a `listener` that is called whenever a limit may have changed.
pub(crate) fn simulate_heard(
    simulation: &Simulation,
    name: &str,
    limit: &dyn Fn(usize) -> Box<dyn Limit>,
    seed: u64,
    watch: &mut dyn FnMut(usize),
    listener: Option<&mut dyn FnMut(u64, usize, Insight)>,
) -> Run {
    let clock = ManualClock::new();
    let subject = |limit, queue: Option<WaitingRoom>| {
        let queue = queue.map(|room| (room.queue, room.bound));
        Subject::new(limit, queue, clock.clock())
    };
    let outer = (0..simulation.processes.len()).map(limit);
    let outer: Vec<Subject> = outer
        .map(|limit| subject(limit, simulation.queue))
        .collect();
    let stations = simulation.stations.iter();
    let inner: Vec<Option<Subject>> = stations
        .map(|stop| {
            let gate = stop.gate.as_ref()?;
            Some(subject(gate.limit.make()?, gate.queue))
        })
        .collect();
    let mut world = World::new(simulation, &outer, &inner, clock.clone(), seed);
    if let Some(listener) = listener {
        world = world.listener(listener);
    }
    world.go(watch);
    let (recorder, inside) = world.end_of();
    recorder.finish(name, seed, inside)
}
