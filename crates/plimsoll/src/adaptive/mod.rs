//! Limits that find themselves.

mod limit;

pub use limit::{Insight, Limit, Load, Sample};
