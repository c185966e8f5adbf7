#![doc = include_str!("../README.md")]

mod admit;
mod ask;
mod bodies;
mod bucket;
mod costs;
mod decide;
mod decision;
mod events;
mod fast_path;
mod handle;
mod keys;
mod layer;
mod limit;
mod limits;
mod members;
mod names;
mod parametric;
mod partners;
mod plan;
mod pool;
mod records;
mod report;
mod request;
mod request_hold;
mod reserve;
mod resolve;
mod respond;
mod restore;
mod router;
mod settle;
mod state;
mod stats;
#[cfg(feature = "redis")]
mod stores;
mod subscribe;
mod terms;
mod timeout;
mod top;
mod view;
mod watch;

pub use ask::Ask;
pub use bodies::BodyLayer;
pub use bucket::{Allowance, Bucket};
pub use decide::Decide;
pub use decision::{Answer, Hold, Refusal};
pub use events::{AskEvent, EventKey, LimitsEvent, LimitsEventKind};
pub use layer::FileLimits;
pub use limits::Limits;
pub use parametric::{BucketParams, Parametric, SavedBucket};
pub use plimsoll_config::Saved;
pub use plimsoll_config::{
    Change, ChangeKind, Changes, Config, ConfigError, FieldChange, FileWatch, FileWatcher,
    FreshReason, StateOutcome,
};
pub use plimsoll_kinds::LimiterKind;
#[cfg(feature = "redis")]
pub use plimsoll_redis::{StoreErrorKind, StoreStats};
pub use records::{AskRecord, RecordedResponse, unknown_body};
pub use request::{Claims, Descriptors};
pub use reserve::Reserved;
pub use resolve::RequestAsk;
pub use restore::Restore;
pub use top::{TopKey, TopKeys, mask};
pub use view::{LimitView, TopView};
