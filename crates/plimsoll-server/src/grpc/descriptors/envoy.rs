//! The rate-limit service of Envoy, and its quota service.

use super::common::{DURATION, U32_VALUE};
use super::types::{File, Msg, Of};

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
        messages: &[Msg(
            "HeaderValue",
            &[("key", 1, Of::Text), ("value", 2, Of::Text)],
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
            Msg(
                "RateLimitDescriptor",
                &[
                    (
                        "entries",
                        1,
                        Of::Many(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"),
                    ),
                    (
                        "limit",
                        2,
                        Of::Message(
                            ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
                        ),
                    ),
                    (
                        "hits_addend",
                        3,
                        Of::Message(".google.protobuf.UInt64Value"),
                    ),
                    ("is_negative_hits", 4, Of::Bool),
                ],
                None,
            ),
            Msg(
                "RateLimitDescriptor/Entry",
                &[("key", 1, Of::Text), ("value", 2, Of::Text)],
                None,
            ),
            Msg(
                "RateLimitDescriptor/RateLimitOverride",
                &[
                    ("requests_per_unit", 1, Of::U32),
                    ("unit", 2, Of::Enum(".envoy.type.v3.RateLimitUnit")),
                    ("unit_multiplier", 3, Of::Message(U32_VALUE)),
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
            Msg(
                "RateLimitRequest",
                &[
                    ("domain", 1, Of::Text),
                    (
                        "descriptors",
                        2,
                        Of::Many(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
                    ),
                    ("hits_addend", 3, Of::U32),
                ],
                None,
            ),
            Msg(
                "RateLimitResponse",
                &[
                    (
                        "overall_code",
                        1,
                        Of::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                    ),
                    (
                        "statuses",
                        2,
                        Of::Many(".envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus"),
                    ),
                    (
                        "response_headers_to_add",
                        3,
                        Of::Many(".envoy.config.core.v3.HeaderValue"),
                    ),
                    (
                        "request_headers_to_add",
                        4,
                        Of::Many(".envoy.config.core.v3.HeaderValue"),
                    ),
                    ("raw_body", 5, Of::Bytes),
                    (
                        "dynamic_metadata",
                        6,
                        Of::Message(".google.protobuf.Struct"),
                    ),
                ],
                None,
            ),
            Msg(
                "RateLimitResponse/RateLimit",
                &[
                    ("requests_per_unit", 1, Of::U32),
                    (
                        "unit",
                        2,
                        Of::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit"),
                    ),
                    ("name", 3, Of::Text),
                    ("unit_multiplier", 4, Of::Message(U32_VALUE)),
                ],
                None,
            ),
            Msg(
                "RateLimitResponse/DescriptorStatus",
                &[
                    (
                        "code",
                        1,
                        Of::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                    ),
                    (
                        "current_limit",
                        2,
                        Of::Message(".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit"),
                    ),
                    ("limit_remaining", 3, Of::U32),
                    ("duration_until_reset", 4, Of::Message(DURATION)),
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
        messages: &[Msg(
            "TokenBucket",
            &[
                ("max_tokens", 1, Of::U32),
                ("tokens_per_fill", 2, Of::Message(U32_VALUE)),
                ("fill_interval", 3, Of::Message(DURATION)),
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
        messages: &[Msg(
            "RateLimitStrategy",
            &[
                (
                    "blanket_rule",
                    1,
                    Of::Enum(".envoy.type.v3.RateLimitStrategy.BlanketRule"),
                ),
                ("token_bucket", 3, Of::Message(".envoy.type.v3.TokenBucket")),
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
            Msg(
                "RateLimitQuotaUsageReports",
                &[
                    ("domain", 1, Of::Text),
                    ("bucket_quota_usages", 2, Of::Many(USAGE)),
                ],
                None,
            ),
            Msg(
                "RateLimitQuotaUsageReports/BucketQuotaUsage",
                &[
                    ("bucket_id", 1, Of::Message(BUCKET)),
                    ("time_elapsed", 2, Of::Message(DURATION)),
                    ("num_requests_allowed", 3, Of::U64),
                    ("num_requests_denied", 4, Of::U64),
                ],
                None,
            ),
            Msg(
                "RateLimitQuotaResponse",
                &[("bucket_action", 1, Of::Many(ACTION))],
                None,
            ),
            Msg(
                "RateLimitQuotaResponse/BucketAction",
                &[
                    ("bucket_id", 1, Of::Message(BUCKET)),
                    ("quota_assignment_action", 2, Of::Message(ASSIGN)),
                    ("abandon_action", 3, Of::Message(ABANDON)),
                ],
                Some(("bucket_action", 1)),
            ),
            Msg(
                "RateLimitQuotaResponse/BucketAction/QuotaAssignmentAction",
                &[
                    ("assignment_time_to_live", 2, Of::Message(DURATION)),
                    (
                        "rate_limit_strategy",
                        3,
                        Of::Message(".envoy.type.v3.RateLimitStrategy"),
                    ),
                ],
                None,
            ),
            Msg(
                "RateLimitQuotaResponse/BucketAction/AbandonAction",
                &[],
                None,
            ),
            Msg(
                "BucketId",
                &[(
                    "bucket",
                    1,
                    Of::Many(".envoy.service.rate_limit_quota.v3.BucketId.BucketEntry"),
                )],
                None,
            ),
            Msg(
                "BucketId/BucketEntry",
                &[("key", 1, Of::Text), ("value", 2, Of::Text)],
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
/// In the order of their numbers.
const UNITS: &[&str] = &[
    "UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK",
];
