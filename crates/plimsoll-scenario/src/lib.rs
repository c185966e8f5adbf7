//! Scenario files.

mod error;
mod tree;

pub use error::FileError;
