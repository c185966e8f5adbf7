#![doc = include_str!("../README.md")]

mod app;
mod columns;
mod details;
mod draw;
mod endpoint;
mod feed;
mod numbers;
mod plain;
mod sections;
mod styles;
mod terminal;
mod tick;

pub use app::{App, Connection, Order, Section};
pub use draw::render;
pub use endpoint::{Endpoint, EndpointError};
pub use feed::{Feed, FeedError, FeedEvent};
pub use plain::plain;
/// Re-exported because its types are in the signatures of this crate.
pub use ratatui;
pub use terminal::{is_coloured, run};
pub use tick::{
    Key, Keys, Learned, Limit, Quota, Quotas, Reload, Share, Shared, Tick, Tier, Upstream,
};
