//! Limits on how often work may start.
//!
//! Every rule here answers one question: *given everything admitted so far, may this cost start now,
//! and if not, when?* They differ in what they remember.
//!
//! | rule | remembers | lets through at once | bytes |
//! |---|---|---|---|
//! | [`TokenBucket`] | one point in time | its burst | 8 |
//! | [`FixedWindow`] | what was taken in this window | its limit, twice around a border | 8 |
//! | [`SlidingWindow`] | what was taken, by segment | its limit | 4 a segment |
//!
//! Use [`TokenBucket`] unless a contract speaks of windows. None of these bounds how much runs at
//! once; see [`Concurrency`](crate::Concurrency).

mod fixed_window;
mod period;
mod sliding_window;
mod token_bucket;

pub use fixed_window::{FixedWindow, Window};
pub use sliding_window::{Segments, SlidingWindow};
pub use token_bucket::{Filling, TokenBucket};
