#![doc = include_str!("../README.md")]

mod active;
mod builder;
mod by_key;
mod decision;
mod log;
mod policies;
mod report;
mod retained;
mod saved;
mod settings;
mod subject;
mod tiers;

pub use builder::PoliciesBuilder;
pub use by_key::PolicyKeys;
pub use decision::{Closed, Decision};
pub use policies::Policies;
pub use report::{Report, Row};
#[doc(hidden)]
pub use retained::SubjectState;
pub use subject::{OpCode, Packet, Remote};
pub use tiers::Policy;
