use std::time::Duration;

use crate::expect::Relation;
use crate::num::{NANOS, index};
use crate::profile::Profile;

/// A description of processes that share a limit, of the network between them, and of what should come of it.
///
/// It is read from a file in YAML or JSON; the README of this crate explains the format.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(super) name: String,
    pub(super) about: String,
    /// Whole seconds.
    pub(super) seconds: u64,
    /// How many there are; each number is a run of its own.
    pub(super) processes: Vec<u32>,
    pub(super) sharing: Sharing,
    /// Tokens a second.
    pub(super) rate: u64,
    pub(super) burst: u64,
    /// What all want together, as a multiple of the rate.
    pub(super) demand: Profile,
    pub(super) busy: Option<Busy>,
    pub(super) network: Network,
    pub(super) expectations: Vec<FleetExpectation>,
}

/// How a limit is shared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sharing {
    /// Processes borrow from a store.
    Borrowed {
        borrow: plimsoll_redis::Borrow,
        outage: Outage,
        /// How long an answer of the store is waited for.
        timeout: Duration,
    },
    /// A server assigns shares to proxies.
    Assigned {
        /// Whether a proxy without an assignment lets everything through.
        admit: bool,
    },
}

/// What a process does that cannot reach the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outage {
    Deny,
    Admit,
    /// It has its equal part of the limit for itself.
    Local,
}

/// Some have more to do than others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// So many of the processes, as a part.
    pub(super) part: f64,
    /// Have so much of the demand, as a part.
    pub(super) share: f64,
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    /// The longest that a message takes; it takes anything up to that.
    pub(super) delay: Duration,
    /// The share of messages that are lost.
    pub(super) loss: f64,
    /// How long the connection of a process lasts, on average.
    pub(super) cuts: Option<Duration>,
    /// How long a process lasts, on average.
    pub(super) restarts: Option<Duration>,
    /// The seconds at which the store or the server is restarted, and forgets.
    pub(super) server_restarts: Vec<u64>,
    pub(super) partitions: Vec<Partition>,
    /// By how much the clock of a process is ahead at most.
    pub(super) skew: Duration,
}

/// Some of the processes are cut off, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    pub(super) from: u64,
    pub(super) to: u64,
    /// As a part of all, from the first on.
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
    /// What was admitted above the rate, as a part of the bound.
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
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is about, in a sentence.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// How long it lasts, in virtual time.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Requests a second of one of so many processes at a moment.
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

    /// What could be admitted in a second, by the limit and by the demand.
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
    /// Whether it cuts off one of so many.
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
