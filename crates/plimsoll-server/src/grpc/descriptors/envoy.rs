//! Descriptors of Envoy's rate limit service and rate limit quota service.

use super::common::{DURATION, U32_VALUE};
use super::types::{FieldType, File, Message};

const BUCKET: &str = ".envoy.service.rate_limit_quota.v3.BucketId";
const USAGE: &str =
    ".envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports.BucketQuotaUsage";
const ACTION: &str = ".envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse.BucketAction";
const ASSIGN: &str =
    ".envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse.BucketAction.QuotaAssignmentAction";
const ABANDON: &str =
    ".envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse.BucketAction.AbandonAction";

pub(super) const FILES: &[File] = &[
    File {
        name: "envoy/type/v3/ratelimit_unit.proto",
        package: "envoy.type.v3",
        imports: &[],
        messages: &[],
        enums: &[("RateLimitUnit", UNITS)],
        service: None,
    },
    File {
        name: "envoy/config/core/v3/base.proto",
        package: "envoy.config.core.v3",
        imports: &[],
        messages: &[Message(
            "HeaderValue",
            &[("key", 1, FieldType::Text), ("value", 2, FieldType::Text)],
            None,
        )],
        enums: &[],
        service: None,
    },
    File {
        name: "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
        package: "envoy.extensions.common.ratelimit.v3",
        imports: &[
            "envoy/type/v3/ratelimit_unit.proto",
            "google/protobuf/wrappers.proto",
        ],
        messages: &[
            Message(
                "RateLimitDescriptor",
                &[
                    (
                        "entries",
                        1,
                        FieldType::Many(
                            ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
                        ),
                    ),
                    (
                        "limit",
                        2,
                        FieldType::Message(
                            ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
                        ),
                    ),
                    (
                        "hits_addend",
                        3,
                        FieldType::Message(".google.protobuf.UInt64Value"),
                    ),
                    ("is_negative_hits", 4, FieldType::Bool),
                ],
                None,
            ),
            Message(
                "RateLimitDescriptor/Entry",
                &[("key", 1, FieldType::Text), ("value", 2, FieldType::Text)],
                None,
            ),
            Message(
                "RateLimitDescriptor/RateLimitOverride",
                &[
                    ("requests_per_unit", 1, FieldType::U32),
                    ("unit", 2, FieldType::Enum(".envoy.type.v3.RateLimitUnit")),
                    ("unit_multiplier", 3, FieldType::Message(U32_VALUE)),
                ],
                None,
            ),
        ],
        enums: &[],
        service: None,
    },
    File {
        name: "envoy/service/ratelimit/v3/rls.proto",
        package: "envoy.service.ratelimit.v3",
        imports: &[
            "envoy/config/core/v3/base.proto",
            "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
            "google/protobuf/duration.proto",
            "google/protobuf/struct.proto",
            "google/protobuf/wrappers.proto",
        ],
        messages: &[
            Message(
                "RateLimitRequest",
                &[
                    ("domain", 1, FieldType::Text),
                    (
                        "descriptors",
                        2,
                        FieldType::Many(
                            ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor",
                        ),
                    ),
                    ("hits_addend", 3, FieldType::U32),
                ],
                None,
            ),
            Message(
                "RateLimitResponse",
                &[
                    (
                        "overall_code",
                        1,
                        FieldType::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                    ),
                    (
                        "statuses",
                        2,
                        FieldType::Many(
                            ".envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus",
                        ),
                    ),
                    (
                        "response_headers_to_add",
                        3,
                        FieldType::Many(".envoy.config.core.v3.HeaderValue"),
                    ),
                    (
                        "request_headers_to_add",
                        4,
                        FieldType::Many(".envoy.config.core.v3.HeaderValue"),
                    ),
                    ("raw_body", 5, FieldType::Bytes),
                    (
                        "dynamic_metadata",
                        6,
                        FieldType::Message(".google.protobuf.Struct"),
                    ),
                ],
                None,
            ),
            Message(
                "RateLimitResponse/RateLimit",
                &[
                    ("requests_per_unit", 1, FieldType::U32),
                    (
                        "unit",
                        2,
                        FieldType::Enum(
                            ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
                        ),
                    ),
                    ("name", 3, FieldType::Text),
                    ("unit_multiplier", 4, FieldType::Message(U32_VALUE)),
                ],
                None,
            ),
            Message(
                "RateLimitResponse/DescriptorStatus",
                &[
                    (
                        "code",
                        1,
                        FieldType::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                    ),
                    (
                        "current_limit",
                        2,
                        FieldType::Message(
                            ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit",
                        ),
                    ),
                    ("limit_remaining", 3, FieldType::U32),
                    ("duration_until_reset", 4, FieldType::Message(DURATION)),
                ],
                None,
            ),
        ],
        enums: &[
            ("RateLimitResponse/Code", &["UNKNOWN", "OK", "OVER_LIMIT"]),
            ("RateLimitResponse/RateLimit/Unit", UNITS),
        ],
        service: Some((
            "RateLimitService",
            &[(
                "ShouldRateLimit",
                ".envoy.service.ratelimit.v3.RateLimitRequest",
                ".envoy.service.ratelimit.v3.RateLimitResponse",
                (false, false),
            )],
        )),
    },
    File {
        name: "envoy/type/v3/token_bucket.proto",
        package: "envoy.type.v3",
        imports: &[
            "google/protobuf/duration.proto",
            "google/protobuf/wrappers.proto",
        ],
        messages: &[Message(
            "TokenBucket",
            &[
                ("max_tokens", 1, FieldType::U32),
                ("tokens_per_fill", 2, FieldType::Message(U32_VALUE)),
                ("fill_interval", 3, FieldType::Message(DURATION)),
            ],
            None,
        )],
        enums: &[],
        service: None,
    },
    File {
        name: "envoy/type/v3/ratelimit_strategy.proto",
        package: "envoy.type.v3",
        imports: &["envoy/type/v3/token_bucket.proto"],
        messages: &[Message(
            "RateLimitStrategy",
            &[
                (
                    "blanket_rule",
                    1,
                    FieldType::Enum(".envoy.type.v3.RateLimitStrategy.BlanketRule"),
                ),
                (
                    "token_bucket",
                    3,
                    FieldType::Message(".envoy.type.v3.TokenBucket"),
                ),
            ],
            Some(("strategy", 0)),
        )],
        enums: &[("RateLimitStrategy/BlanketRule", &["ALLOW_ALL", "DENY_ALL"])],
        service: None,
    },
    File {
        name: "envoy/service/rate_limit_quota/v3/rlqs.proto",
        package: "envoy.service.rate_limit_quota.v3",
        imports: &[
            "envoy/type/v3/ratelimit_strategy.proto",
            "google/protobuf/duration.proto",
        ],
        messages: &[
            Message(
                "RateLimitQuotaUsageReports",
                &[
                    ("domain", 1, FieldType::Text),
                    ("bucket_quota_usages", 2, FieldType::Many(USAGE)),
                ],
                None,
            ),
            Message(
                "RateLimitQuotaUsageReports/BucketQuotaUsage",
                &[
                    ("bucket_id", 1, FieldType::Message(BUCKET)),
                    ("time_elapsed", 2, FieldType::Message(DURATION)),
                    ("num_requests_allowed", 3, FieldType::U64),
                    ("num_requests_denied", 4, FieldType::U64),
                ],
                None,
            ),
            Message(
                "RateLimitQuotaResponse",
                &[("bucket_action", 1, FieldType::Many(ACTION))],
                None,
            ),
            Message(
                "RateLimitQuotaResponse/BucketAction",
                &[
                    ("bucket_id", 1, FieldType::Message(BUCKET)),
                    ("quota_assignment_action", 2, FieldType::Message(ASSIGN)),
                    ("abandon_action", 3, FieldType::Message(ABANDON)),
                ],
                Some(("bucket_action", 1)),
            ),
            Message(
                "RateLimitQuotaResponse/BucketAction/QuotaAssignmentAction",
                &[
                    ("assignment_time_to_live", 2, FieldType::Message(DURATION)),
                    (
                        "rate_limit_strategy",
                        3,
                        FieldType::Message(".envoy.type.v3.RateLimitStrategy"),
                    ),
                ],
                None,
            ),
            Message(
                "RateLimitQuotaResponse/BucketAction/AbandonAction",
                &[],
                None,
            ),
            Message(
                "BucketId",
                &[(
                    "bucket",
                    1,
                    FieldType::Many(".envoy.service.rate_limit_quota.v3.BucketId.BucketEntry"),
                )],
                None,
            ),
            Message(
                "BucketId/BucketEntry",
                &[("key", 1, FieldType::Text), ("value", 2, FieldType::Text)],
                None,
            ),
        ],
        enums: &[],
        service: Some((
            "RateLimitQuotaService",
            &[(
                "StreamRateLimitQuotas",
                ".envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports",
                ".envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse",
                (true, true),
            )],
        )),
    },
];
/// The names of units, in the order of their numbers.
const UNITS: &[&str] = &[
    "UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK",
];
