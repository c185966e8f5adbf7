#![doc = include_str!("../README.md")]

pub mod channel;
mod held;
pub mod listener;
mod patient;
pub mod stream;
pub mod throttled;

pub use channel::{channel, channel_with_cost};
pub use held::Held;
pub use listener::LimitedListener;
pub use stream::LimitedStream;
pub use throttled::{Budget, Throttled};
