//! Limits that find themselves.
//!
//! A [`Limit`] is an algorithm that watches work come and go and says how much of it is safe at once. [`Adaptive`]
//! puts it into a gate: a concurrency limit with a queue, priorities and everything else, whose number moves.

mod inbox;
mod learner;
mod limit;
mod rule;
mod settings;

pub use limit::{Findings, Insight, Limit, Load, Sample};
pub use rule::Adaptive;
pub use settings::Settings;
