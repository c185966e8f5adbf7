//! The body of `POST /v1/check`: one decision, or several.

use std::fmt;

use plimsoll_admin::DecisionRequest;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// One decision, or several independent decisions (`checks`).
#[derive(Debug)]
pub(crate) enum CheckRequest {
    One(Box<DecisionRequest>),
    Many(Vec<DecisionRequest>),
}

/// The first field selects the variant, so the body is parsed once, and errors refer to the selected variant.
impl<'de> Deserialize<'de> for CheckRequest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = CheckRequest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object that asks for a decision, or `checks`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CheckRequest, A::Error> {
                let first = map.next_key::<String>()?;
                if first.as_deref() != Some("checks") {
                    let from = MapAccessDeserializer::new(PeekedMap { first, map });
                    return DecisionRequest::deserialize(from)
                        .map(|it| CheckRequest::One(Box::new(it)));
                }
                let checks = map.next_value()?;
                match map.next_key::<String>()? {
                    None => Ok(CheckRequest::Many(checks)),
                    Some(more) => Err(A::Error::custom(format!(
                        "expected nothing beside `checks`, found `{more}`"
                    ))),
                }
            }
        }

        from.deserialize_map(Fields)
    }
}

/// A map whose first key was already read.
struct PeekedMap<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for PeekedMap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed
                .deserialize(serde::de::value::StringDeserializer::new(first))
                .map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CheckRequest, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_one_or_many_by_its_first_field() {
        assert!(matches!(
            read(r#"{"limit":"a","key":"b"}"#),
            Ok(CheckRequest::One(_))
        ));
        let many = read(r#"{"checks":[{"limit":"a"},{"limit":"b"}]}"#);
        assert!(matches!(many, Ok(CheckRequest::Many(checks)) if checks.len() == 2));
        assert!(matches!(read("{}"), Ok(CheckRequest::One(_))));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, why) in [
            (
                r#"{"limti":"a"}"#,
                "unknown field `limti`, expected one of `limit`",
            ),
            (r#"{"limit":"a","limit":"b"}"#, "duplicate field `limit`"),
            (
                r#"{"checks":[],"limit":"b"}"#,
                "expected nothing beside `checks`, found `limit`",
            ),
            (r#"{"checks":[{"cost":"b"}]}"#, "expected u64"),
            (r#"{"checks":null}"#, "expected a sequence"),
            ("[]", "expected an object that asks for a decision"),
        ] {
            let said = read(text).expect_err("it is wrong");
            assert!(
                said.contains(why) && said.contains("line 1"),
                "{text}: {said}"
            );
        }
    }
}
