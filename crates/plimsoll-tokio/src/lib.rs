#![doc = include_str!("../README.md")]

pub mod channel;
pub mod listener;
pub mod stream;
pub mod throttled;
mod with_permit;

pub use channel::{channel, channel_with_cost};
pub use listener::LimitedListener;
pub use stream::LimitedStream;
pub use throttled::{Budget, Throttled};
pub use with_permit::WithPermit;
