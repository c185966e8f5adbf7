#![doc = include_str!("../README.md")]

mod admit;
mod ask;
mod bodies;
mod bucket;
mod caller;
mod costs;
mod decide;
mod decision;
mod events;
mod handle;
mod held;
mod keys;
mod layer;
mod limit;
mod limits;
mod members;
mod names;
mod parametric;
mod partners;
mod parts;
mod plan;
mod pool;
mod quick;
mod records;
mod request;
mod reserve;
mod resolve;
mod respond;
mod restore;
mod router;
mod seen;
mod settle;
#[cfg(feature = "redis")]
mod stores;
mod take;
mod tell;
mod terms;
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
pub use parametric::{Parametric, SavedBucket, Terms};
pub use plimsoll_config::Saved;
pub use plimsoll_config::{
    Change, Changes, Config, ConfigError, FieldChange, FileWatch, FileWatcher, Fresh, StateKept,
    What,
};
pub use plimsoll_kinds::LimiterKind;
#[cfg(feature = "redis")]
pub use plimsoll_redis::{StoreErrorKind, StoreStats};
pub use records::{Asked, Served, unknown_body};
pub use request::{Claims, Descriptors};
pub use reserve::Reserved;
pub use resolve::RequestAsk;
pub use restore::Restore;
pub use top::{TopKey, TopKeys, mask};
pub use view::{LimitView, TopView};
