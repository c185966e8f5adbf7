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
pub use feed::{Feed, FeedError, News};
pub use plain::plain;
/// Its frames, backends and keys are in the signatures here.
pub use ratatui;
pub use terminal::{is_coloured, run};
pub use tick::{
    Key, Keys, Learned, Limit, Quota, Quotas, Reload, Share, Shared, Tick, Tier, Upstream,
};
