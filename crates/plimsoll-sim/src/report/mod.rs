//! What came of it, for people and for programs.

mod json;
mod text;

pub use json::{JsonReport, json};
pub use text::text;
