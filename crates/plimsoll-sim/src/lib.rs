#![doc = include_str!("../README.md")]

mod class;
mod closed_loop;
mod contender;
mod events;
mod expect;
mod histogram;
mod num;
mod pauses;
mod profile;
mod read;
mod record;
mod room;
mod server;
mod simulation;
mod subject;
mod summary;
mod traffic;
mod work;
mod world;

pub use contender::{Contender, UnknownLimit};
pub use expect::Checked;
pub use record::{Counts, Run, Second};
pub use simulation::{Phase, Simulation};
pub use summary::Summary;
pub use world::{run, run_watched};
