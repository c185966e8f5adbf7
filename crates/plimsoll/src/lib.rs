#![doc = include_str!("../README.md")]

mod acquire;
pub mod adaptive;
mod address;
mod all;
mod batched;
mod blocking;
mod clock;
mod concurrency;
mod demand;
mod denied;
mod events;
mod gate;
mod grant;
mod invalid;
mod joint;
mod keyed;
mod learning;
mod lease;
mod limit_req;
mod limiter;
mod metadata;
mod moment;
mod name;
mod partitions;
mod pausable;
mod per_key;
mod permit;
mod queue;
mod quota;
pub mod rate;
mod reason;
mod reservation;
mod rule;
mod snapshot;
mod stamp;
mod standing;
mod sync;
#[doc(hidden)]
pub mod together;
mod totals;
mod unwind;
mod wakeups;

pub use acquire::Acquire;
pub use address::Address;
pub use all::All;
pub use batched::Batched;
pub use clock::{Clock, ManualClock, Sleep};
pub use concurrency::{Concurrency, Slots};
pub use demand::{Demand, Priority};
pub use denied::Denied;
pub use events::{Event, EventKind, Events, KeyedEvent, Listener, Listeners, NextEvent};
pub use gate::{Gate, GateBuilder};
#[doc(hidden)]
pub use grant::Era;
pub use grant::{Grant, Outcome, Shareable, Source};
pub use invalid::InvalidLimit;
pub use keyed::{AcquireKey, KeyHash, KeyHasher, Keyed, KeyedBuilder, WhenFull};
pub use lease::{LeaseState, Lost};
pub use limit_req::LimitReq;
#[doc(hidden)]
pub use limiter::{Internals, Parts};
pub use limiter::{Limiter, LimiterExt};
pub use metadata::{Metadata, MetadataValue};
pub use moment::Moment;
pub use partitions::{Partition, Partitions};
pub use pausable::Pausable;
pub use per_key::PerKey;
pub use permit::Permit;
pub use queue::{Counts, Full, Queue};
pub use quota::Quota;
pub use rate::{
    Bandwidths, FixedWindow, PenaltyBucket, Refresh, SlidingCounter, SlidingLog, SlidingWindow,
    Smooth, TokenBucket,
};
pub use reason::Reason;
pub use reservation::Reservation;
pub use rule::{Carry, Packed, PackedTake, Refusal, Rule, Unpacked};
pub use snapshot::Snapshot;
pub use standing::Standing;
