//! Adaptive concurrency limits.
//!
//! A [`Limit`] is an algorithm that computes a concurrency limit from measurements of the work. [`Adaptive`] is the
//! rule that runs it in a [`Gate`](crate::Gate): a concurrency limit that changes, with a queue and priorities.
//!
//! [`Verdict`] is the algorithm of this crate, and the recommended one: it needs no tuning.
//!
//! The others are published algorithms, and behave exactly as published, including their weaknesses, except where the
//! original breaks: here latencies of 0, clocks that step back and extreme numbers leave every limit within its bounds.
//!
//! - [`Aimd`]: raises the limit by one for each success, cuts it for each failure or timeout.
//! - [`Vegas`]: estimates the queue from the minimum latency.
//! - [`Gradient2`]: compares the latency with its long-term average.
//! - [`LatencyGradient`]: compares the average latency with its own minimum, and grows by the number of waiting
//!   demands.
//! - [`Windowed`]: aggregates samples into windows for another algorithm.

mod aimd;
mod boxed;
mod builder;
mod gradient2;
mod histogram;
mod inbox;
mod latency_gradient;
mod learner;
mod limit;
#[cfg(all(test, loom))]
mod model;
mod pace;
mod range;
mod rule;
mod settings;
mod vegas;
mod verdict;
mod windowed;

pub use crate::learning::{Insight, Load, Sample};
pub use aimd::Aimd;
pub use builder::Builder;
pub use gradient2::Gradient2;
pub use latency_gradient::LatencyGradient;
pub use limit::{Limit, QueueContext};
pub use rule::Adaptive;
pub use settings::Settings;
pub use vegas::Vegas;
pub use verdict::Verdict;
pub use windowed::{Windowed, WindowedBuilder};
