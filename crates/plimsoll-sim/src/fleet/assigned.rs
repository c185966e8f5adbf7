//! Shares that a server assigns, with the division and the simulated proxies of `plimsoll-quota`.

use plimsoll::Quota;
use plimsoll_quota::simulation::{self, Without};

use super::model::Fleet;
use super::outcome::Tally;

pub(super) fn run(fleet: &Fleet, processes: u32, admit: bool, seed: u64) -> Tally {
    let network = &fleet.network;
    let per_second =
        |every: Option<std::time::Duration>| every.map_or(0.0, |it| 1.0 / it.as_secs_f64());
    let own = fleet.clone();
    let count = crate::num::index(u64::from(processes));
    let mut world = simulation::ProxyFleet::new(Quota::per_second(fleet.rate), fleet.burst, count)
        .demand(move |process, now| own.demand_of(process, processes, now.as_nanos()))
        .seconds(fleet.seconds)
        .delay(network.delay)
        .skew(network.skew)
        .cuts(per_second(network.cuts))
        .proxy_restarts(per_second(network.restarts))
        .without(if admit { Without::Allow } else { Without::Deny });
    for second in &network.server_restarts {
        world = world.server_restart(*second);
    }
    for part in &network.partitions {
        let cut = part.count(processes);
        world = world.partition(simulation::NetworkPartition::new(part.from, part.to, cut));
    }
    let result = world.run(seed);
    Tally {
        demanded: result.demanded,
        admitted: result.admitted,
        by_second: result.admitted_by_second,
        unlimited: result.unassigned,
        stale: result.stale,
        above: result.worst,
        bound: fleet.burst as f64,
        messages: result.pushes,
    }
}
