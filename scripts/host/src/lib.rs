//! An empty crate. `Cargo.toml` explains its purpose.
