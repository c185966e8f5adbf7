//! How files are written down here.

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Of {
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

/// Its name, its number, what it holds.
pub(super) type Field = (&'static str, i32, Of);

/// A message: its name, its fields, and from which on they are alternatives.
pub(super) struct Msg(
    pub(super) &'static str,
    pub(super) &'static [Field],
    pub(super) Option<(&'static str, usize)>,
);

pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    pub(super) imports: &'static [&'static str],
    pub(super) messages: &'static [Msg],
    /// A name, and the words in the order of their numbers. `Message/Name` is within a message.
    pub(super) enums: &'static [(&'static str, &'static [&'static str])],
    /// A service, its method, what comes and what goes, and whether they are streams.
    pub(super) service: Option<(&'static str, &'static [Method])>,
}

pub(super) type Method = (&'static str, &'static str, &'static str, (bool, bool));
