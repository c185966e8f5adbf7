#![doc = include_str!("../README.md")]

mod check;
mod client;
mod config;
#[cfg(test)]
mod defaults;
mod effective;
mod expand;
pub mod gateway;
mod live;
mod partner;
#[cfg(feature = "redis")]
mod redis;
mod route;
mod schema;
mod serve;
mod source;
mod spec;
pub mod uses;

pub use client::{ClientSpec, Network};
pub use config::Config;
pub use live::{
    Change, ChangeKind, Changes, FieldChange, FileWatch, FileWatcher, FreshReason, LimitSet,
    Limits, Part, Restore, Route, Saved, StateOutcome,
};
pub use partner::{CallRate, PartnerSpec};
#[doc(inline)]
pub use plimsoll_kinds::KeyedLimiter;
pub use plimsoll_spec::{FileError as ConfigError, Format, Queue as QueueSpec};
pub use route::{HeaderMatch, HostPattern, Pattern, RouteSpec, Segment};
pub use schema::schema;
pub use serve::ServeSpec;
