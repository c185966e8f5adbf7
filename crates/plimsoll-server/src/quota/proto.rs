//! The protobuf messages of the quota service, with the fields that are used.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct UsageReports {
    #[prost(message, repeated, tag = "2")]
    pub(super) usages: Vec<BucketUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketUsage {
    #[prost(message, optional, tag = "1")]
    pub(super) bucket: Option<BucketId>,
    #[prost(message, optional, tag = "2")]
    pub(super) elapsed: Option<Span>,
    #[prost(uint64, tag = "3")]
    pub(super) allowed: u64,
    #[prost(uint64, tag = "4")]
    pub(super) denied: u64,
}

/// The id of a bucket: a map of entries.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct BucketId {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(super) entries: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(super) struct Span {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Response {
    #[prost(message, repeated, tag = "1")]
    pub(super) actions: Vec<Action>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Action {
    #[prost(message, optional, tag = "1")]
    pub(super) bucket: Option<BucketId>,
    #[prost(oneof = "ActionKind", tags = "2, 3")]
    pub(super) kind: Option<ActionKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ActionKind {
    #[prost(message, tag = "2")]
    Assign(Assignment),
    #[prost(message, tag = "3")]
    Abandon(Abandon),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Abandon {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Assignment {
    #[prost(message, optional, tag = "2")]
    pub(super) time_to_live: Option<Span>,
    #[prost(message, optional, tag = "3")]
    pub(super) strategy: Option<Strategy>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Strategy {
    #[prost(oneof = "Rule", tags = "1, 3")]
    pub(super) rule: Option<Rule>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(super) enum Rule {
    #[prost(enumeration = "Blanket", tag = "1")]
    Blanket(i32),
    #[prost(message, tag = "3")]
    TokenBucket(TokenBucket),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(super) enum Blanket {
    AllowAll = 0,
    DenyAll = 1,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TokenBucket {
    #[prost(uint32, tag = "1")]
    pub(super) max_tokens: u32,
    #[prost(message, optional, tag = "2")]
    pub(super) tokens_per_fill: Option<Count>,
    #[prost(message, optional, tag = "3")]
    pub(super) fill_interval: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Count {
    #[prost(uint32, tag = "1")]
    pub(super) value: u32,
}

impl Span {
    pub(super) fn new(span: Duration, nanos: u32) -> Self {
        Self {
            seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(nanos).unwrap_or_default(),
        }
    }

    /// Converts the seconds. Envoy sends no nanoseconds.
    pub(super) fn whole(self) -> Duration {
        Duration::from_secs(u64::try_from(self.seconds).unwrap_or_default())
    }
}
