//! What every service of gRPC may use, and its health.

use super::types::{File, Msg, Of};

pub(super) const DURATION: &str = ".google.protobuf.Duration";
pub(super) const U32_VALUE: &str = ".google.protobuf.UInt32Value";

pub(super) const FILES: &[File] = &[
    File {
        name: "google/protobuf/duration.proto",
        package: "google.protobuf",
        imports: &[],
        messages: &[Msg(
            "Duration",
            &[("seconds", 1, Of::I64), ("nanos", 2, Of::I32)],
            None,
        )],
        enums: &[],
        service: None,
    },
    File {
        name: "google/protobuf/wrappers.proto",
        package: "google.protobuf",
        imports: &[],
        messages: &[
            Msg("UInt64Value", &[("value", 1, Of::U64)], None),
            Msg("UInt32Value", &[("value", 1, Of::U32)], None),
        ],
        enums: &[],
        service: None,
    },
    File {
        name: "google/protobuf/struct.proto",
        package: "google.protobuf",
        imports: &[],
        messages: &[
            Msg(
                "Struct",
                &[("fields", 1, Of::Many(".google.protobuf.Struct.FieldsEntry"))],
                None,
            ),
            Msg(
                "Struct/FieldsEntry",
                &[
                    ("key", 1, Of::Text),
                    ("value", 2, Of::Message(".google.protobuf.Value")),
                ],
                None,
            ),
            Msg(
                "Value",
                &[
                    ("null_value", 1, Of::Enum(".google.protobuf.NullValue")),
                    ("number_value", 2, Of::Double),
                    ("string_value", 3, Of::Text),
                    ("bool_value", 4, Of::Bool),
                    ("struct_value", 5, Of::Message(".google.protobuf.Struct")),
                    ("list_value", 6, Of::Message(".google.protobuf.ListValue")),
                ],
                Some(("kind", 0)),
            ),
            Msg(
                "ListValue",
                &[("values", 1, Of::Many(".google.protobuf.Value"))],
                None,
            ),
        ],
        enums: &[("NullValue", &["NULL_VALUE"])],
        service: None,
    },
    File {
        name: "grpc/health/v1/health.proto",
        package: "grpc.health.v1",
        imports: &[],
        messages: &[
            Msg("HealthCheckRequest", &[("service", 1, Of::Text)], None),
            Msg(
                "HealthCheckResponse",
                &[(
                    "status",
                    1,
                    Of::Enum(".grpc.health.v1.HealthCheckResponse.ServingStatus"),
                )],
                None,
            ),
        ],
        enums: &[(
            "HealthCheckResponse/ServingStatus",
            &["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"],
        )],
        service: Some((
            "Health",
            &[
                (
                    "Check",
                    ".grpc.health.v1.HealthCheckRequest",
                    ".grpc.health.v1.HealthCheckResponse",
                    (false, false),
                ),
                (
                    "Watch",
                    ".grpc.health.v1.HealthCheckRequest",
                    ".grpc.health.v1.HealthCheckResponse",
                    (false, true),
                ),
            ],
        )),
    },
];
