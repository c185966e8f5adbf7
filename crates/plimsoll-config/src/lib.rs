#![doc = include_str!("../README.md")]

mod check;
mod config;
#[cfg(test)]
mod defaults;
mod effective;
mod live;
#[cfg(feature = "redis")]
mod redis;
mod route;
mod schema;
mod spec;
pub mod uses;

pub use config::Config;
pub use live::{Changes, FileWatch, FileWatcher, KeyedLimiter, LimitSet, Limits, Part, Route};
pub use plimsoll_spec::{FileError as ConfigError, Format};
pub use schema::schema;
