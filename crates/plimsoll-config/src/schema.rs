//! The JSON Schema of configuration files, for editors.

/// The JSON Schema of configuration files, made of the types they are read into.
///
/// It checks fields, words, numbers and units. That names exist and go where they are used is for
/// [`Config`](crate::Config) to say.
#[must_use]
pub fn schema() -> String {
    plimsoll_spec::schema_of::<crate::spec::File>()
}
