//! What is counted, and how it is written. One program: each file in `tests/` would be linked by itself.

#[path = "../hand/mod.rs"]
mod hand;
#[path = "../page/mod.rs"]
mod page;

mod counting;
mod exposition;
#[cfg(feature = "tracing")]
mod spans_and_events;
mod whatever_happens;
