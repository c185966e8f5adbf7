//! Descriptions of limiters as data, which configuration files, scenarios and simulations share.
//!
//! A file is read in three steps. Its text, in [YAML, TOML or JSON](Format), becomes a [tree] of [`Node`]s with lines and
//! columns. The tree is read into types: by hand with [`Fields`] and the readers of [`scalar`], or through serde with [`read`]
//! (which reports all mistakes) or [`read_one`] (which stops at the first). The types build rules: [`Kind::with_rule`],
//! [`Algorithm::build`], [`Queue::build`].
//!
//! ```
//! use plimsoll_spec::{FileError, Kind, Limiter, Units, document, read_one};
//!
//! let read = |text| {
//!     let root = document(text, "a limiter")?;
//!     read_one::<Limiter>(&root, Units::Required)
//! };
//! let limiter = read("{ kind: token_bucket, burst: 5, refill: 100, every: 1s }")?;
//! assert_eq!(limiter.kind.word(), "token_bucket");
//!
//! let problem = read("{ kind: token_bucket, burst: 5, refill: 100, every: 1 }").unwrap_err();
//! let error = FileError::problem("limits.yaml".as_ref(), problem);
//! assert_eq!(
//!     error.to_string(),
//!     "limits.yaml:1:53: every: expected a duration with its unit such as 250ms, 1s, 5m, 1h or 1d, found \"1\", \
//!      did you mean `1s`?"
//! );
//! # Ok::<(), plimsoll_spec::Problem>(())
//! ```
//!
//! Kinds of files differ in whether a duration needs its unit ([`Units`]).

mod algorithm;
mod any_rate;
mod buckets;
mod de;
mod described;
mod environment;
mod fields;
mod file;
mod format;
mod invalid;
mod limit;
mod limiter;
mod metadata;
mod named;
mod node;
mod partitions;
mod path;
mod place;
mod policies;
mod problem;
mod queue;
mod rates;
pub mod scalar;
mod schema;
mod short;
mod store;
mod toml_tree;
pub mod tree;
mod value;

pub use algorithm::Algorithm;
pub use any_rate::{AnyRate, AnyState, RateRule};
pub use buckets::{Bandwidth, Bandwidths, PenaltyBucket, Style, TokenBucket};
pub use de::{Broken, MAX_PROBLEMS, Recovered, read, read_one};
pub use described::{AdaptiveRule, DescribedLimit};
pub use environment::substitute_variables;
pub use fields::{Fields, each};
pub use file::{FileError, text_of};
pub use format::Format;
pub use invalid::InvalidSpec;
pub use limit::{limit, limit_at};
pub use limiter::{Common, Kind, Limiter, Member, STORABLE, WithRule};
pub use metadata::{Fact, Metadata};
pub use named::Named;
pub use partitions::{Partitions, Shared};
pub use path::{Path, Places, Step, below, keys};
pub use place::Place;
pub use policies::{Fallback, FallbackRate, NoFallback, Policies, Policy, PolicySettings};
pub use problem::{Problem, Read, label, quote};
pub use queue::{Full, Order, Queue, QueueBoundCounts};
pub use rates::{
    Align, FixedWindow, Rate, Refresh, SlidingCounter, SlidingLog, SlidingWindow, SmoothBursty,
    SmoothWarmup,
};
pub use scalar::Units;
pub use schema::{rate as rate_schema, schema_of, with_fields};
pub use short::{is_rate, long_form, read_rate};
pub use store::{Always, Borrow, Outage, Secret, Share, Store, Url};
pub use tree::{Entry, Node, Value, Written, document, parse};
pub use value::{Count, Memory, Name, Number, Percent, Period, Positive, Signed, Span};
