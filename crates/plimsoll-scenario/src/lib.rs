//! Scenario files.

mod error;
mod read;
mod spec;
mod tree;

pub use error::FileError;
