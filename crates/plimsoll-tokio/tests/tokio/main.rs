//! Channels, listeners, streams and throttled connections. One program: each file in `tests/` would be linked by itself.

#[path = "../moody/mod.rs"]
mod moody;
#[path = "../poll/mod.rs"]
mod poll;
#[path = "../queued/mod.rs"]
mod queued;
#[path = "../settle/mod.rs"]
mod settle;

mod auto_traits;
mod channel;
mod channel_cancel;
mod examples;
mod listener;
mod listener_axum;
mod listener_troubles;
mod stream;
mod throttled;
mod throttled_shares;
