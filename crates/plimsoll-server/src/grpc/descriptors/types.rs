//! Constant types from which file descriptors are built.

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum FieldType {
    Text,
    Bytes,
    Bool,
    Double,
    I32,
    I64,
    U32,
    U64,
    Enum(&'static str),
    Message(&'static str),
    Many(&'static str),
}

/// The name, number and type of a field.
pub(super) type Field = (&'static str, i32, FieldType);

/// A message: its name, its fields, and the name and first field of its `oneof`, if it has one.
pub(super) struct Message(
    pub(super) &'static str,
    pub(super) &'static [Field],
    pub(super) Option<(&'static str, usize)>,
);

pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    pub(super) imports: &'static [&'static str],
    pub(super) messages: &'static [Message],
    /// The name of each enum and its values in the order of their numbers. `Message/Name` is nested in a message.
    pub(super) enums: &'static [(&'static str, &'static [&'static str])],
    /// The name of the service, and its methods: name, request type, response type, and which of the two are streams.
    pub(super) service: Option<(&'static str, &'static [Method])>,
}

pub(super) type Method = (&'static str, &'static str, &'static str, (bool, bool));
