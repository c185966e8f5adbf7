//! Against real servers, which every test starts for itself on ports of their own. They need `redis-server` and
//! `redis-cli`: Debian has them in the packages `redis-server` and `redis-tools`.

mod bad_input;
#[cfg(feature = "cluster")]
mod cluster;
mod expiry;
mod leases;
mod same_answers;
mod server;
mod together;
