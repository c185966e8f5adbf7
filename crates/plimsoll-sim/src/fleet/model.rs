use std::time::Duration;

use crate::expect::Relation;
use crate::num::{NANOS, index};
use crate::profile::Profile;

/// A description of processes that share a limit over a network, and of the expected results.
///
/// The processes borrow tokens from a store (`sharing: borrowed`, the code of `plimsoll-redis`), or a server assigns shares to
/// proxies (`sharing: assigned`, the code of `plimsoll-quota`). A fleet is read from a file in YAML or JSON; the README of this crate
/// explains the format.
///
/// ```
/// use plimsoll_sim::Fleet;
///
/// let fleet = Fleet::from_text("fleet.yaml", "
///     name: borrowers
///     duration: 30s
///     fleet: { processes: 4, sharing: borrowed, rate: 100, delay: 2ms }
/// ")?;
/// let outcomes = fleet.run(1);
/// assert_eq!(outcomes[0].processes, 4);
/// assert!(outcomes[0].above <= outcomes[0].bound);
/// # Ok::<(), plimsoll_spec::FileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(super) name: String,
    pub(super) about: String,
    /// The duration in whole seconds.
    pub(super) seconds: u64,
    /// The numbers of processes. Each number is a run of its own.
    pub(super) processes: Vec<u32>,
    pub(super) sharing: Sharing,
    /// The rate in tokens per second.
    pub(super) rate: u64,
    pub(super) burst: u64,
    /// The demand of all processes together, as a multiple of the rate.
    pub(super) demand: Profile,
    pub(super) busy: Option<Busy>,
    pub(super) network: Network,
    pub(super) expectations: Vec<FleetExpectation>,
}

/// The way in which a limit is shared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sharing {
    /// Processes borrow from a store.
    Borrowed {
        borrow: plimsoll_redis::Borrow,
        outage: Outage,
        /// The time-out of a request to the store.
        timeout: Duration,
    },
    /// A server assigns shares to proxies.
    Assigned {
        /// Whether a proxy without an assignment lets everything through.
        admit: bool,
    },
}

/// The behaviour of a process that cannot reach the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outage {
    Deny,
    Admit,
    /// The process enforces its equal part of the limit by itself.
    Local,
}

/// Processes with more demand than others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// The fraction of the processes that are busy.
    pub(super) part: f64,
    /// The fraction of the demand that the busy processes have.
    pub(super) share: f64,
}

/// The network and its faults.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// The longest delay of a message. Delays are uniform between 0 and this.
    pub(super) delay: Duration,
    /// The share of messages that are lost.
    pub(super) loss: f64,
    /// The mean time until the connection of a process breaks.
    pub(super) cuts: Option<Duration>,
    /// The mean time until a process is restarted.
    pub(super) restarts: Option<Duration>,
    /// The seconds at which the store or the server is restarted, and loses its state.
    pub(super) server_restarts: Vec<u64>,
    pub(super) partitions: Vec<Partition>,
    /// The largest clock skew of a process.
    pub(super) skew: Duration,
}

/// A network partition that cuts off some of the processes, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The fraction of the processes that are cut off, from the first on.
    pub(super) part: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FleetExpectation {
    pub(super) metric: FleetMetric,
    pub(super) relation: Relation,
    pub(super) value: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FleetMetric {
    /// The admitted requests above the rate, as a fraction of the bound.
    Above,
    Used,
    UsedParted,
    Fairness,
    Least,
    Most,
}

pub(super) const METRICS: [(&str, FleetMetric); 6] = [
    ("above", FleetMetric::Above),
    ("used", FleetMetric::Used),
    ("used_parted", FleetMetric::UsedParted),
    ("fairness", FleetMetric::Fairness),
    ("least", FleetMetric::Least),
    ("most", FleetMetric::Most),
];

impl Fleet {
    /// The name of the fleet: `name` of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description of the fleet: `about` of the file. Empty if it has none.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The duration of a run, in virtual time.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The requests per second of one of `processes` at a moment.
    pub(super) fn demand_of(&self, process: usize, processes: u32, now: u64) -> f64 {
        let total = self.demand.at(now) * self.rate as f64;
        let all = f64::from(processes);
        let Some(Busy { part, share }) = self.busy else {
            return total / all;
        };
        let busy = (part * all).ceil().clamp(1.0, all);
        if (process as f64) < busy {
            total * share / busy
        } else {
            total * (1.0 - share) / (all - busy)
        }
    }

    /// The most requests that the limit and the demand allow in a second.
    pub(super) fn possible(&self, second: usize) -> f64 {
        let middle = second as u64 * NANOS + NANOS / 2;
        self.demand.at(middle).min(1.0) * self.rate as f64
    }

    pub(super) fn is_parted(&self, second: usize) -> bool {
        let inside = |it: &Partition| (index(it.from)..index(it.to)).contains(&second);
        self.network.partitions.iter().any(inside)
    }
}

impl Partition {
    /// Whether the partition cuts off `process` of `processes` now.
    pub(super) fn cuts(&self, process: usize, processes: u32, now: u64) -> bool {
        let cut = self.count(processes);
        (self.from * NANOS..self.to * NANOS).contains(&now) && process < cut
    }

    pub(super) fn count(&self, processes: u32) -> usize {
        index(crate::num::whole(
            (self.part * f64::from(processes)).round(),
        ))
    }
}
