#![doc = include_str!("../README.md")]

mod chance;
mod demo;
mod directory;
mod picture;
mod report;
mod samples;
mod script;
mod traffic;
mod upstream;

pub use demo::{Demo, Event, Settings, StartError};
pub use report::{Phase, Report};
pub use samples::Sums;
pub use script::{Class, Stage};
