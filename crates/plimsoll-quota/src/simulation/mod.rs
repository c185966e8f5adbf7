//! A fleet of proxies that divide a limit, on a network that loses, delays and parts, in virtual time.
//!
//! A [`Fleet`] runs from a seed, the same way every time: [`Proxy`] decides as Envoy does, a [`Division`](crate::Division) divides, and
//! streams between them are delayed and cut, proxies and the server restarted, and parts of the network cut off. The
//! [`Outcome`] has the admitted requests, and the largest excess over the limit in any span of time.
//!
//! ```
//! use plimsoll::Quota;
//! use plimsoll_quota::simulation::Fleet;
//!
//! let fleet = Fleet::new(Quota::per_second(100), 100, 20).demand(|proxy, _| if proxy == 0 { 80.0 } else { 2.0 });
//! let outcome = fleet.seconds(60).run(1);
//! assert!(outcome.worst <= 100.0, "never more above the rate than the burst");
//! assert!(outcome.admitted[0] > 3 * outcome.admitted[1]);
//! ```

#[cfg(test)]
mod adversary;
mod chance;
mod fleet;
mod outcome;
mod proxy;
mod world;

pub use fleet::{Fleet, Partition};
pub use outcome::Outcome;
pub use proxy::{Proxy, Verdict, Without};
