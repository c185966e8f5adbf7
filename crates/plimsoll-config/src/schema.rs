//! The JSON Schema of configuration files, for editors.

/// Returns the JSON Schema of configuration files, made of the types they are read into.
///
/// It checks fields, keywords, numbers and units. [`Config`](crate::Config) checks in addition that names exist and fit the
/// places that use them.
#[must_use]
pub fn schema() -> String {
    plimsoll_spec::schema_of::<crate::spec::File>()
}
