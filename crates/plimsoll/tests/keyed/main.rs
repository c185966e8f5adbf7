//! What a limit for each key does. One program: each file in `tests/` would be linked by itself.

#[path = "../poll/mod.rs"]
mod poll;

mod forgotten_keys;
mod keyed;
mod keyed_adaptive;
mod keyed_as_gate;
mod keyed_events;
mod keyed_flood;
mod keyed_limits;
mod keyed_queue;
mod keyed_random;
mod keyed_reserve;
mod keyed_room;
mod keyed_undo;
