//! Metadata of a limit, which its refusals and grants carry.

use std::borrow::Cow;

use plimsoll::MetadataValue;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::invalid::InvalidSpec;
use crate::named::Named;
use crate::path::Step;

/// Metadata of a limit, which its refusals and grants carry. Clients can read it, so it must not contain secrets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "metadata such as { phrase: \"Too many bookings\", code: BOOK-429 }"
)]
#[non_exhaustive]
pub struct Metadata {
    /// The text of a refusal, instead of the phrase of its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrase: Option<String>,
    /// A code: a text or a whole number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Fact>,
    /// Other values, by names of lower-case letters, digits, `_` and `-`, at most 16 of them.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(schema_with = "facts")]
    pub pairs: Named<Fact>,
}

/// A value of [`Metadata`]: a text, a whole number, `true` or `false`.
///
/// ```
/// use plimsoll::MetadataValue;
/// use plimsoll_spec::Fact;
///
/// assert_eq!(Fact("42".to_owned()).value(), MetadataValue::from(42));
/// assert_eq!(Fact("BOOK-429".to_owned()).value(), MetadataValue::from("BOOK-429"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fact(pub String);

impl Fact {
    /// Returns the value: a number or a flag if the text is one, otherwise the text.
    #[must_use]
    pub fn value(&self) -> MetadataValue<'_> {
        match self.0.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            text => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => text.into(),
            },
        }
    }
}

impl Metadata {
    /// Builds the metadata of the core.
    ///
    /// ```
    /// use plimsoll_spec::{Metadata, Units, document, read_one};
    ///
    /// let root = document("{ phrase: Too many bookings, pairs: { plan: free } }", "metadata")?;
    /// let metadata: Metadata = read_one(&root, Units::Required)?;
    /// assert_eq!(metadata.build().unwrap().get("plan"), Some("free".into()));
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a text is empty or too long, there are more than 16 pairs, or a name is invalid.
    pub fn build(&self) -> Result<plimsoll::Metadata, InvalidSpec> {
        let mut built = plimsoll::Metadata::new();
        if let Some(phrase) = &self.phrase {
            built = built.try_phrase(phrase)?;
        }
        if let Some(code) = &self.code {
            built = built.try_code(code.value())?;
        }
        for (name, fact) in self.pairs.iter() {
            let pair = built.try_pair(name, fact.value());
            built = pair.map_err(|invalid| InvalidSpec::of("pairs", invalid))?;
        }
        Ok(built)
    }

    /// Checks it, as a field of a limiter.
    pub(crate) fn check(&self) -> Result<(), InvalidSpec> {
        let built = self.build().map(drop);
        built.map_err(|invalid| invalid.under(Step::Key("metadata")))
    }
}

/// Facts by name.
fn facts(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Other things, by names of lower-case letters, digits, `_` and `-`, at most 16 of them.",
        "type": "object",
        "maxProperties": plimsoll::Metadata::MAX_PAIRS,
        "propertyNames": { "pattern": "^[a-z][a-z0-9_-]{0,63}$" },
        "additionalProperties": generator.subschema_for::<Fact>(),
    })
}

impl JsonSchema for Fact {
    fn schema_name() -> Cow<'static, str> {
        "Fact".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text, a whole number, true or false.",
            "anyOf": [
                { "type": "string", "minLength": 1, "maxLength": plimsoll::Metadata::MAX_TEXT },
                { "type": "integer" },
                { "type": "boolean" }
            ]
        })
    }
}
