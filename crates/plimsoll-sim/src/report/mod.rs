//! What came of it, for people and for programs.

mod json;
mod text;

pub use json::{JsonReport, json};
#[cfg(feature = "fleet")]
pub(crate) use text::table;
pub use text::text;
