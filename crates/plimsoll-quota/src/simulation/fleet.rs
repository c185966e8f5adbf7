//! What is simulated.

use std::fmt;
use std::time::Duration;

use plimsoll::{Moment, Quota};

use crate::simulation::outcome::Outcome;
use crate::simulation::proxy::Without;
use crate::simulation::world::World;
use crate::timing::Timing;

/// A part of the network that is cut off for a time: no message passes, and the server notices late.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Partition {
    /// From when, in seconds.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// How many of the proxies, from the first on.
    pub proxies: usize,
}

impl Partition {
    /// Cuts off the first `proxies` from one second to another.
    #[must_use]
    pub const fn new(from: u64, to: u64, proxies: usize) -> Self {
        Self { from, to, proxies }
    }
}

type DemandOf = Box<dyn Fn(usize, Moment) -> f64 + Send + Sync>;

/// A fleet of proxies that share a limit, and what happens to it.
pub struct Fleet {
    pub(super) quota: Quota,
    pub(super) burst: u64,
    pub(super) proxies: usize,
    pub(super) timing: Timing,
    pub(super) seconds: u64,
    pub(super) demand: DemandOf,
    pub(super) without: Without,
    pub(super) delay: Duration,
    pub(super) skew: Duration,
    pub(super) cuts: f64,
    pub(super) proxy_restarts: f64,
    pub(super) server_restarts: Vec<u64>,
    pub(super) partitions: Vec<Partition>,
}

impl Fleet {
    /// So many proxies that share a limit, for two minutes, on a good network. Each has a demand of twice its equal part.
    #[must_use]
    pub fn new(quota: Quota, burst: u64, proxies: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "demand is about")]
        let each =
            2.0 * quota.units() as f64 / quota.period().as_secs_f64() / proxies.max(1) as f64;
        Self {
            quota,
            burst,
            proxies,
            timing: Timing::ENVOY,
            seconds: 120,
            demand: Box::new(move |_, _| each),
            without: Without::Deny,
            delay: Duration::from_millis(20),
            skew: Duration::ZERO,
            cuts: 0.0,
            proxy_restarts: 0.0,
            server_restarts: Vec::new(),
            partitions: Vec::new(),
        }
    }

    /// Requests per second of a proxy at a moment.
    #[must_use]
    pub fn demand(mut self, of: impl Fn(usize, Moment) -> f64 + Send + Sync + 'static) -> Self {
        self.demand = Box::new(of);
        self
    }

    /// How long it runs.
    #[must_use]
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// What proxies do without an assignment: they deny, unless said otherwise.
    #[must_use]
    pub fn without(mut self, without: Without) -> Self {
        self.without = without;
        self
    }

    /// When members report and how long assignments last.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// The longest that a message takes; it takes anything up to that.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// By how much the clock of a proxy is ahead of that of the server at most; each by its own part of it.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// How often the stream of a proxy breaks, per second; what is under way then is lost.
    #[must_use]
    pub fn cuts(mut self, per_second: f64) -> Self {
        self.cuts = per_second;
        self
    }

    /// How often a proxy is restarted, per second.
    #[must_use]
    pub fn proxy_restarts(mut self, per_second: f64) -> Self {
        self.proxy_restarts = per_second;
        self
    }

    /// The second at which the server is restarted. Once more for each call.
    #[must_use]
    pub fn server_restart(mut self, second: u64) -> Self {
        self.server_restarts.push(second);
        self
    }

    /// A part of the network that is cut off. Once more for each call.
    #[must_use]
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partitions.push(partition);
        self
    }

    /// Runs from a seed.
    #[must_use]
    pub fn run(&self, seed: u64) -> Outcome {
        World::new(self, seed).run()
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("quota", &self.quota)
            .field("burst", &self.burst)
            .field("proxies", &self.proxies)
            .field("seconds", &self.seconds)
            .finish_non_exhaustive()
    }
}
