//! Policies: what they decide, under random use, and in the server of the example.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod active;
mod packet_server;
mod policies;
mod random;
mod reports;
