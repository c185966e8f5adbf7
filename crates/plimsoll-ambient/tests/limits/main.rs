//! Limits on memory and processor time. One program: each file in `tests/` would be linked by itself.

#[path = "../fed/mod.rs"]
mod fed;
#[path = "../tree/mod.rs"]
mod tree;

mod cgroups;
mod cpu;
mod memory;
mod sampling;
mod waiting;
