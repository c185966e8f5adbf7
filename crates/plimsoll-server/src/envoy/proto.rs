//! The protobuf messages of `envoy.service.ratelimit.v3`, with those of other packages that it uses.

use prost::{Enumeration, Message};
use prost_types::Duration;

use super::metadata::Map;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<RateLimitDescriptor>,
    /// The default cost of a descriptor. 0 means 1.
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<RateLimitOverride>,
    /// Overrides the `hits_addend` of the request. 0 means 0.
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// An override: a limit that comes with the request.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub(crate) unit: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) unit_multiplier: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<HeaderValue>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) request_headers_to_add: Vec<HeaderValue>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) raw_body: Vec<u8>,
    #[prost(message, optional, tag = "6")]
    pub(crate) dynamic_metadata: Option<Map>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) unit_multiplier: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(crate) enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

/// A unit of time. Some versions of Envoy do not know `WEEK` in an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(crate) enum Unit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    Month = 5,
    Year = 6,
    Week = 7,
}

/// All units and their names.
pub(crate) const UNITS: [(&str, Unit); 7] = [
    ("SECOND", Unit::Second),
    ("MINUTE", Unit::Minute),
    ("HOUR", Unit::Hour),
    ("DAY", Unit::Day),
    ("WEEK", Unit::Week),
    ("MONTH", Unit::Month),
    ("YEAR", Unit::Year),
];

impl Unit {
    /// The length in seconds. As in the reference server, a month has 30 days and a year 365.
    pub(crate) const fn seconds(self) -> u64 {
        const DAY: u64 = 86_400;
        match self {
            Self::Unknown => 0,
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        let name = UNITS.iter().find(|(_, unit)| *unit == self);
        name.map_or("UNKNOWN", |(name, _)| name)
    }

    /// The unit with this name, case-insensitive.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let mut units = UNITS.iter();
        let unit = units.find(|(known, _)| known.eq_ignore_ascii_case(name));
        unit.map(|(_, unit)| *unit)
    }
}
