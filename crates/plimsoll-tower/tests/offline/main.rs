//! Everything that needs neither a runtime nor a socket: services, futures and bodies are polled by hand, and time is
//! that of a manual clock. One binary, because linking one takes longer than running it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../../../plimsoll/tests/counting/mod.rs"]
mod counting;
mod desk;
mod hand;
mod http_desk;
#[path = "../support/recorder.rs"]
mod recorder;
mod steps;

mod answers;
mod answers_read_back;
mod any_service;
#[cfg(feature = "axum")]
mod declare;
mod forwarded;
mod hostile;
mod http_service;
#[cfg(feature = "json")]
mod json_costs;
mod keys;
mod keys_allocation;
mod learned_rate;
mod leases;
mod limits_of_a_file;
#[cfg(all(feature = "axum", feature = "metrics", feature = "tracing"))]
mod observed;
mod partner;
mod priority;
mod shedding;
mod shedding_goodput;
mod trusted_networks;
mod weights;
