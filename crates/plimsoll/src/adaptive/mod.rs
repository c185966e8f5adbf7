//! Adaptive concurrency limits.
//!
//! A [`Limit`] is an algorithm that measures work and computes how much of it may run at once. [`Adaptive`] is the
//! rule that puts it into a [`Gate`](crate::Gate): a concurrency limit that changes, with a queue and priorities.
//!
//! [`Verdict`] is our own, and the one to begin with: it needs no tuning.
//!
//! The others are published algorithms, and behave as published to the last bit, weak sides included, except where
//! the original breaks: latencies of 0, clocks that step, and numbers without end leave every limit within its bounds.
//!
//! - [`Aimd`]: one more for each success, a cut for each failure or timeout.
//! - [`Vegas`]: estimates the queue from the least latency seen.
//! - [`Gradient2`]: compares latency with its long-term average.
//! - [`LatencyGradient`]: compares the average latency with its own least, and grows by what waits.
//! - [`Windowed`]: shows another algorithm one sample for each window of time.

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
