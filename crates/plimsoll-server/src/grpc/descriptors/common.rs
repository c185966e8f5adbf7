//! Descriptors of the well-known protobuf types and of the health service.

use super::types::{FieldType, File, Message};

pub(super) const DURATION: &str = ".google.protobuf.Duration";
pub(super) const U32_VALUE: &str = ".google.protobuf.UInt32Value";

pub(super) const FILES: &[File] = &[
    File {
        name: "google/protobuf/duration.proto",
        package: "google.protobuf",
        imports: &[],
        messages: &[Message(
            "Duration",
            &[("seconds", 1, FieldType::I64), ("nanos", 2, FieldType::I32)],
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
            Message("UInt64Value", &[("value", 1, FieldType::U64)], None),
            Message("UInt32Value", &[("value", 1, FieldType::U32)], None),
        ],
        enums: &[],
        service: None,
    },
    File {
        name: "google/protobuf/struct.proto",
        package: "google.protobuf",
        imports: &[],
        messages: &[
            Message(
                "Struct",
                &[(
                    "fields",
                    1,
                    FieldType::Many(".google.protobuf.Struct.FieldsEntry"),
                )],
                None,
            ),
            Message(
                "Struct/FieldsEntry",
                &[
                    ("key", 1, FieldType::Text),
                    ("value", 2, FieldType::Message(".google.protobuf.Value")),
                ],
                None,
            ),
            Message(
                "Value",
                &[
                    (
                        "null_value",
                        1,
                        FieldType::Enum(".google.protobuf.NullValue"),
                    ),
                    ("number_value", 2, FieldType::Double),
                    ("string_value", 3, FieldType::Text),
                    ("bool_value", 4, FieldType::Bool),
                    (
                        "struct_value",
                        5,
                        FieldType::Message(".google.protobuf.Struct"),
                    ),
                    (
                        "list_value",
                        6,
                        FieldType::Message(".google.protobuf.ListValue"),
                    ),
                ],
                Some(("kind", 0)),
            ),
            Message(
                "ListValue",
                &[("values", 1, FieldType::Many(".google.protobuf.Value"))],
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
            Message(
                "HealthCheckRequest",
                &[("service", 1, FieldType::Text)],
                None,
            ),
            Message(
                "HealthCheckResponse",
                &[(
                    "status",
                    1,
                    FieldType::Enum(".grpc.health.v1.HealthCheckResponse.ServingStatus"),
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
