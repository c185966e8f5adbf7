//! What benchmarks on real sockets share: an open loop of requests, and proxies as processes of their own.

pub mod envoy;
mod open_loop;
mod proxy;

pub use open_loop::{Answer, open_loop};
pub use proxy::Proxy;
