#![doc = include_str!("../README.md")]

mod access_log;
mod chance;
mod class;
mod closed_loop;
mod compare;
mod contender;
#[cfg(feature = "fleet")]
mod described;
mod events;
mod expect;
mod explain;
#[cfg(feature = "fleet")]
mod fleet;
mod fluid;
mod job;
mod mix;
mod num;
mod oracle;
mod pauses;
mod phase;
mod plot;
mod profile;
mod read;
mod record;
mod report;
mod retrying;
mod room;
mod run;
#[cfg(feature = "fleet")]
mod schema;
mod second;
mod simulate;
mod simulation;
mod station;
mod subject;
mod summary;
mod threads;
mod traffic;
mod units;
mod work;
mod world;

pub use access_log::AccessLog;
pub use compare::{Compared, Comparison, LimitResult};
pub use contender::{Contender, UnknownLimit};
#[cfg(feature = "fleet")]
pub use described::Described;
pub use expect::Checked;
pub use explain::{Decision, explain, explained};
#[cfg(feature = "fleet")]
pub use fleet::{Fleet, FleetOutcome, FleetReport, fleet_text};
pub use phase::Phase;
pub use plot::{PlotError, plot_file, plot_png, plot_svg};
pub use record::Run;
pub use report::{JsonReport, json, text};
pub use run::{run, run_watched};
#[cfg(feature = "fleet")]
pub use schema::schema;
pub use second::{RequestCounts, Second};
pub use simulation::Simulation;
pub use summary::Summary;
