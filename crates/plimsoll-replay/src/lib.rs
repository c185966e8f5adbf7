#![doc = include_str!("../README.md")]

mod common;
mod csv;
mod described;
mod distinct;
mod done;
mod duration;
mod error;
mod fields;
mod flips;
mod format;
mod html;
mod input;
mod json;
mod log;
mod logs;
mod notes;
mod order;
mod peaks;
mod pool;
mod record;
mod replay;
mod report;
mod request;
mod scan;
mod series;
mod solo;
mod state;
mod suggest;
mod summary;
mod tally;
mod text;
mod time;
mod wanted;
mod words;
mod world;

pub use duration::DurationUnit;
pub use error::{BadLine, LogError, ReplayError};
pub use format::LogFormat;
pub use log::LogSummary;
pub use logs::{Logs, Requests};
pub use record::Record;
pub use replay::{Progress, Replay};
pub use report::{
    AgainstReport, FirstRefusal, FlipReport, KeyReport, LimitReport, PeakReport, Report,
    RouteReport, SeriesReport, SuggestReport, SuggestedLimit, WaitReport,
};
