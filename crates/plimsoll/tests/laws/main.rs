//! What holds for every rule, whatever happens to it: checked on the rules themselves, without a gate.

mod carried;
mod every_rule;
mod extremes;
mod forgotten;
mod gcra;
mod own_rule;
#[path = "../poll/mod.rs"]
mod poll;
mod smooth_error;
mod undone;
