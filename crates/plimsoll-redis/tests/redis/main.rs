//! Against real servers, which every test starts for itself on ports of their own. They need `redis-server` and
//! `redis-cli`: Debian has them in the packages `redis-server` and `redis-tools`. Where there are none these tests are skipped,
//! which is said, unless `PLIMSOLL_REQUIRE_REDIS` is set. `PLIMSOLL_REDIS_SERVER` names another server, such as Valkey's.

mod bad_input;
mod batches;
mod borrowing;
mod borrowing_bound;
mod causes;
mod circuit;
#[cfg(feature = "cluster")]
mod cluster;
mod engines;
mod events;
mod expiry;
mod fleet;
mod fleet_many;
mod fleet_same;
mod fleet_waiting;
mod leases;
mod leases_in_layers;
mod logs;
mod many;
mod many_batches;
mod many_scripts;
mod names;
mod outage;
mod property;
mod quick;
mod recipes;
mod replace;
mod same_answers;
mod server;
mod terms;
mod together;
