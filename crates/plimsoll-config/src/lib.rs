#![doc = include_str!("../README.md")]

mod any_rate;
mod check;
mod config;
mod de;
#[cfg(test)]
mod defaults;
mod effective;
mod format;
#[cfg(feature = "redis")]
mod kept;
mod live;
mod place;
mod route;
mod rules;
mod schema;
mod spec;
mod toml_tree;

pub use config::Config;
pub use format::Format;
pub use live::{Changes, FileWatch, FileWatcher, KeyedLimiter, LimitSet, Limits, Part, Route};
pub use plimsoll_scenario::FileError as ConfigError;
pub use schema::schema;
