//! Real servers are killed, stopped, emptied and cut off while 64 tasks ask them, and come back.
//!
//! Whatever happens: nobody panics, nobody waits much longer than the deadline, all tasks end, the setting for outages
//! is kept, nothing is charged twice, and after that it is counted exactly again.

mod blip;
mod clocks;
mod demoted;
#[cfg(feature = "cluster")]
mod failover;
mod leases;
mod load;
mod network;
mod orders;
mod processes;
mod proxy;
mod report;
mod restart;
#[expect(dead_code, reason = "these tests do not use all of it")]
#[path = "../redis/server.rs"]
mod server;
mod steps;
mod tally;
mod terms;
