//! Nothing: `Cargo.toml` says what this crate is for.
