//! Reports of comparisons, as text and as JSON.

mod json;
mod text;

pub use json::{JsonReport, json};
#[cfg(feature = "fleet")]
pub(crate) use text::table;
pub use text::text;
