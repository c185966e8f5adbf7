//! A simulation, in virtual time, of a fleet of proxies that divide a limit on a network with loss, delays and
//! partitions.
//!
//! A [`ProxyFleet`] runs from a seed, the same way every time: [`Proxy`] decides as Envoy does, a [`Division`](crate::Division) divides, and
//! streams between them are delayed and cut, proxies and the server restarted, and parts of the network cut off. The
//! [`FleetResult`] has the admitted requests, and the largest excess over the limit in any span of time.
//!
//! ```
//! use plimsoll::Quota;
//! use plimsoll_quota::simulation::ProxyFleet;
//!
//! let fleet = ProxyFleet::new(Quota::per_second(100), 100, 20).demand(|proxy, _| if proxy == 0 { 80.0 } else { 2.0 });
//! let result = fleet.seconds(60).run(1);
//! assert!(result.worst <= 100.0, "never more above the rate than the burst");
//! assert!(result.admitted[0] > 3 * result.admitted[1]);
//! ```

#[cfg(test)]
mod adversary;
mod chance;
mod fleet;
mod proxy;
mod result;
mod world;

pub use fleet::{NetworkPartition, ProxyFleet};
pub use proxy::{Proxy, ProxyDecision, Without};
pub use result::FleetResult;

use world::World;

impl ProxyFleet {
    /// Runs the simulation. Runs with the same seed have the same result.
    #[must_use]
    pub fn run(&self, seed: u64) -> FleetResult {
        World::new(self, seed).run()
    }
}
