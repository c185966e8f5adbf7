//! The description of a simulated fleet.

use std::fmt;
use std::time::Duration;

use plimsoll::{Moment, Quota};

use crate::simulation::proxy::Without;
use crate::timing::Timing;

/// A network partition: for a time no message passes between the server and some proxies, and the server notices it
/// late.
///
/// The proxies keep their assignments until these expire; the server lends them to no other member before.
///
/// ```
/// use plimsoll::Quota;
/// use plimsoll_quota::simulation::{NetworkPartition, ProxyFleet};
///
/// let fleet = ProxyFleet::new(Quota::per_second(100), 100, 10);
/// let result = fleet.partition(NetworkPartition::new(30, 60, 2)).run(1);
/// assert!(result.worst <= 100.0);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NetworkPartition {
    /// The second at which the partition begins.
    pub from: u64,
    /// The second at which the partition ends.
    pub to: u64,
    /// The number of proxies that are cut off, starting with the first. A number above that of the fleet means all.
    pub proxies: usize,
}

impl NetworkPartition {
    /// Creates a partition that cuts off the first `proxies` from second `from` to second `to`.
    #[must_use]
    pub const fn new(from: u64, to: u64, proxies: usize) -> Self {
        Self { from, to, proxies }
    }
}

type DemandOf = Box<dyn Fn(usize, Moment) -> f64 + Send + Sync>;

/// A fleet of proxies that share a limit, and its faults.
///
/// [`run`](Self::run) simulates it in virtual time. Every setter returns the fleet. Without faults, messages take at most
/// 20 ms and nothing breaks.
///
/// ```
/// use plimsoll::Quota;
/// use plimsoll_quota::simulation::ProxyFleet;
///
/// // Streams break every 50 seconds on average, and the server is restarted once.
/// let fleet = ProxyFleet::new(Quota::per_second(200), 100, 8)
///     .cuts(0.02)
///     .server_restart(60);
/// let result = fleet.run(7);
/// assert_eq!(result, fleet.run(7), "a seed decides everything");
/// assert!(!result.overlent && result.worst <= 100.0);
/// ```
pub struct ProxyFleet {
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
    pub(super) partitions: Vec<NetworkPartition>,
}

impl ProxyFleet {
    /// Creates a fleet of `proxies` that share `quota` with a burst of `burst`, for two minutes, on a network without
    /// faults. Each proxy has a demand of twice its equal part.
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

    /// Sets the demand: the requests per second of a proxy, by its index, at a moment. Default: twice its equal part.
    #[must_use]
    pub fn demand(mut self, of: impl Fn(usize, Moment) -> f64 + Send + Sync + 'static) -> Self {
        self.demand = Box::new(of);
        self
    }

    /// Sets the duration in seconds. Default: 120.
    #[must_use]
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Sets the behaviour of proxies without an assignment. Default: [`Without::Deny`], unlike Envoy's.
    #[must_use]
    pub fn without(mut self, without: Without) -> Self {
        self.without = without;
        self
    }

    /// Sets the interval of reports and the lifetime of assignments. Default: [`Timing::ENVOY`].
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the longest delay of a message. Delays are uniform between 0 and this. Default: 20 ms. The bound of the
    /// division holds while a message takes no longer than [`Timing::settle`].
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the largest clock skew: each proxy's clock is ahead of the server's by a part of it. Default: none.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Sets the average rate at which the stream of each proxy breaks, per second. Messages on the stream are then
    /// lost. Default: 0, never.
    #[must_use]
    pub fn cuts(mut self, per_second: f64) -> Self {
        self.cuts = per_second;
        self
    }

    /// Sets the average rate at which each proxy is restarted, per second. It then loses its assignment. Default: 0,
    /// never.
    #[must_use]
    pub fn proxy_restarts(mut self, per_second: f64) -> Self {
        self.proxy_restarts = per_second;
        self
    }

    /// Restarts the server at a second. Each call adds a restart. The server loses its state, and continues with
    /// [`Division::restarted`](crate::Division::restarted).
    #[must_use]
    pub fn server_restart(mut self, second: u64) -> Self {
        self.server_restarts.push(second);
        self
    }

    /// Adds a partition of the network.
    #[must_use]
    pub fn partition(mut self, partition: NetworkPartition) -> Self {
        self.partitions.push(partition);
        self
    }
}

impl fmt::Debug for ProxyFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyFleet")
            .field("quota", &self.quota)
            .field("burst", &self.burst)
            .field("proxies", &self.proxies)
            .field("seconds", &self.seconds)
            .finish_non_exhaustive()
    }
}
