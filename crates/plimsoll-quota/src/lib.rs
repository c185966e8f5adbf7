#![doc = include_str!("../README.md")]

mod demand;
mod division;
mod ledger;
mod max_min;
mod member;
mod share;
mod shares;
#[cfg(feature = "simulation")]
pub mod simulation;
mod targets;
mod timing;
mod view;

pub use demand::Usage;
pub use division::{Division, Push};
pub use max_min::max_min;
pub use member::Member;
pub use share::Share;
pub use timing::{InvalidTiming, Timing};
pub use view::{DivisionView, MemberView};
