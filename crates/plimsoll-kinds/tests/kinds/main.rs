//! Kinds, weights and providers. One program: each file in `tests/` would be linked by itself.

#[path = "../../../plimsoll/tests/poll/mod.rs"]
mod poll;

mod calls;
mod examples;
mod permits;
mod pipeline;
mod provider;
mod random;
mod together;
mod types;
mod waiting;
