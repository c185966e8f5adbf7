//! Limits on how often work may start.
//!
//! Every rule here answers one question: *after all grants so far, may this cost start now, and if not, when?* They
//! differ in their state.
//!
//! | rule | state | grants at once | bytes |
//! |---|---|---|---|
//! | [`TokenBucket`] | one point in time | its burst | 8 |
//! | [`Bandwidths`] | one point in time for each bucket | the smallest of their bursts | 32 each |
//! | [`PenaltyBucket`] | one point in time, refusals in a row, and a lockout | its burst, or nothing during a lockout | 64 |
//! | [`Smooth`] | stored permits and the time of the next | the stored permits, and one | 32 |
//! | [`FixedWindow`] | the usage of this window | its limit, twice that around a boundary | 8 |
//! | [`SlidingWindow`] | the usage by segment | its limit | 8 per segment |
//! | [`SlidingCounter`] | the usage of this window and the last | about its limit | 32 |
//! | [`SlidingLog`] | the moments of grants in the window, at most its limit | exactly its limit | 16 each |
//! | [`Refresh`] | the remainder of this cycle, or the debt of the next | its limit, twice that around a boundary | 32 |
//!
//! Use [`TokenBucket`] unless a contract is stated in windows. None of these bounds how much runs at once; see
//! [`Concurrency`](crate::Concurrency).
//!
//! Methods that change a setting are named for it and return the rule: `TokenBucket::per_second(100).burst(20)`. A
//! setting that can be invalid has two methods with one check: the plain method panics, for numbers in code; the method
//! with `try_` returns an [`InvalidLimit`](crate::InvalidLimit), for numbers from outside the program.
//!
//! [`Share`] divides a rule among processes. A rule of your own implements [`Rule`](crate::Rule).

mod arithmetic;
mod bandwidths;
mod fixed_window;
mod parts;
mod penalty_bucket;
mod period;
mod refresh;
mod share;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod smooth;
mod token_bucket;

pub use bandwidths::{Bandwidths, Fillings};
pub use fixed_window::{FixedWindow, Window};
pub use penalty_bucket::{Penalty, PenaltyBucket};
pub use refresh::{Cycle, Refresh};
pub use share::Share;
pub use sliding_counter::{SlidingCounter, SlidingCounts};
pub use sliding_log::{Log, SlidingLog};
pub use sliding_window::{Segments, SlidingWindow};
pub use smooth::{Smooth, Stored};
pub use token_bucket::{Filling, TokenBucket};
