//! Everything over sockets of the loopback interface, with real servers and real clients.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod eventually;
#[cfg(any(feature = "axum", feature = "tonic"))]
#[path = "../support/recorder.rs"]
mod recorder;

#[cfg(all(feature = "axum", feature = "upgrade"))]
mod axum_sockets;
mod clients;
#[cfg(all(feature = "axum", feature = "tonic"))]
mod examples;
#[cfg(feature = "axum")]
mod soak;
#[cfg(feature = "tonic")]
mod tonic_of_a_file;
#[cfg(feature = "tonic")]
mod tonic_sockets;
