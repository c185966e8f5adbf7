#![doc = include_str!("../README.md")]

mod access_log;
mod class;
mod closed_loop;
mod compare;
mod contender;
mod events;
mod expect;
mod num;
mod pauses;
mod plot;
mod profile;
mod read;
mod record;
mod report;
mod room;
mod second;
mod server;
mod simulation;
mod subject;
mod summary;
mod traffic;
mod work;
mod world;

pub use access_log::AccessLog;
pub use compare::{Compared, Comparison, Fared};
pub use contender::{Contender, UnknownLimit};
pub use expect::Checked;
pub use plot::{PlotError, plot_file, plot_png, plot_svg};
pub use record::Run;
pub use report::{JsonReport, json, text};
pub use second::{Counts, Second};
pub use simulation::{Phase, Simulation};
pub use summary::Summary;
pub use world::{run, run_watched};
