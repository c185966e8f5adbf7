//! Limits that find themselves.

mod histogram;
mod limit;
mod verdict;

pub use limit::{Insight, Limit, Load, Sample};
pub use verdict::{Verdict, VerdictBuilder};
