//! The cost of a request.

use std::borrow::Cow;
use std::fmt;

use plimsoll_spec::scalar::{amount, nearest};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::answer::StatusRange;
use super::key::{field_name, pointer};
use super::text::{Amount, Spelled, spelled_as_text};

/// The cost of a request.
///
/// A cost that is known only after the request has been served is charged then, in full, even beyond the limit.
///
/// | in a file | charged before | charged after |
/// |---|---|---|
/// | `cost: 2` | 2 | |
/// | `cost: content_length` | the stated length | |
/// | `cost: response_bytes` | 0 | the bytes of the response |
/// | `cost: { estimate: "json:/max_tokens", actual: usage }` | the estimate | the difference to the actual cost |
/// | `cost: { status: [401, 5xx] }` | 1 | refunded unless the response has one of these statuses |
///
/// ```
/// use plimsoll_config::uses::{CostPart, CostSpec};
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits: { tokens: { rate: 100k/min, cost: { estimate: json:/max_tokens, actual: usage, default: 500 } } }";
/// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
/// let cost = &config.use_of("tokens").unwrap().cost;
/// let CostSpec::Estimated { estimate, actual, default, .. } = cost else { panic!("{cost:?}") };
/// assert_eq!(estimate, &CostPart::Json("/max_tokens".to_owned()));
/// assert_eq!((actual, *default), (&Some(CostPart::Usage), 500));
/// # Ok::<(), plimsoll_config::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CostSpec {
    /// A number: `cost: 2`.
    Fixed(u64),
    /// A measured cost: `cost: content_length`, `cost: response_bytes`.
    Measured(CostPart),
    /// An estimate before the request is served, and the actual cost: `cost: { estimate: "json:/max_tokens", actual: usage }`.
    Estimated {
        /// The cost that is charged before the request is served.
        estimate: CostPart,
        /// The actual cost. Without it the estimate stays.
        actual: Option<CostPart>,
        /// The cost of a request without an estimate: 1 unless set.
        default: u64,
        /// The largest estimate; a larger one is cut to it.
        max: Option<u64>,
    },
    /// 1 for each response with one of these statuses, 0 for others: `cost: { status: [401, 403, 5xx] }`.
    Status(Vec<StatusRange>),
}

impl CostSpec {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Each request costs 1.
impl Default for CostSpec {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

/// A number in a request, in its response, or reported by the handler. `Display` writes it as a file has it.
///
/// ```
/// use plimsoll_config::uses::CostPart;
///
/// assert_eq!(CostPart::Header("x-cost".to_owned()).to_string(), "header:x-cost");
/// assert!(CostPart::ResponseBytes.is_late());
/// assert!(!CostPart::ContentLength.is_late());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CostPart {
    /// `content_length`: the length of the body by the request's header field.
    ContentLength,
    /// `request_bytes`: the bytes of the body as they arrive.
    RequestBytes,
    /// `response_bytes`: the bytes of the response body, counted as they are sent.
    ResponseBytes,
    /// `usage`: the usage that the handler reports.
    Usage,
    /// `header:NAME`: a header field of the request.
    Header(String),
    /// `response_header:NAME`: a header field of the response.
    ResponseHeader(String),
    /// `json:/POINTER`: a number in a JSON body, or the length of an array there. The server buffers the body before it decides.
    Json(String),
    /// `response_json:/POINTER`: the same of the response body.
    ResponseJson(String),
}

impl CostPart {
    /// Returns whether it is known only after the request has been served, or after its body has been read. A request
    /// with such a cost is admitted if anything is available, and charged afterwards.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        matches!(
            self,
            Self::RequestBytes
                | Self::ResponseBytes
                | Self::Usage
                | Self::ResponseHeader(_)
                | Self::ResponseJson(_)
        )
    }

    fn parse_part(text: &str) -> Result<Self, String> {
        const WORDS: [(&str, CostPart); 4] = [
            ("content_length", CostPart::ContentLength),
            ("request_bytes", CostPart::RequestBytes),
            ("response_bytes", CostPart::ResponseBytes),
            ("usage", CostPart::Usage),
        ];
        const NAMING: [&str; 4] = ["header", "response_header", "json", "response_json"];
        if let Some((_, part)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(part.clone());
        }
        let (word, name) = text.split_once(':').unwrap_or((text, ""));
        Ok(match word {
            _ if NAMING.contains(&word) && name.is_empty() => {
                return Err(format!(": {word} of what? write `{word}:NAME`"));
            }
            "header" => Self::Header(field_name(name)?),
            "response_header" => Self::ResponseHeader(field_name(name)?),
            "json" => Self::Json(pointer(name)?),
            "response_json" => Self::ResponseJson(pointer(name)?),
            _ => {
                let known = WORDS.iter().map(|(word, _)| *word).chain(NAMING);
                let known: Vec<&str> = known.collect();
                return Err(nearest(word, known.iter().copied()));
            }
        })
    }
}

/// The spelling in a file.
impl fmt::Display for CostPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContentLength => f.write_str("content_length"),
            Self::RequestBytes => f.write_str("request_bytes"),
            Self::ResponseBytes => f.write_str("response_bytes"),
            Self::Usage => f.write_str("usage"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::ResponseHeader(name) => write!(f, "response_header:{name}"),
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::ResponseJson(pointer) => write!(f, "response_json:{pointer}"),
        }
    }
}

impl Spelled for CostPart {
    const HARMLESS: &'static str = "text:usage";
    const WANTED: &'static str = "where a cost is read, such as content_length, response_bytes, usage, header:x-cost or json:/max_tokens";

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse_part(text)
    }
}

spelled_as_text! {
    CostPart => {
        "description": "Where a cost is read: content_length, request_bytes, response_bytes, usage, header:NAME, response_header:NAME, json:/POINTER or response_json:/POINTER.",
        "type": "string",
        "anyOf": [
            { "enum": ["content_length", "request_bytes", "response_bytes", "usage"] },
            { "pattern": "^(header|response_header|json|response_json):.+$" }
        ]
    }
}

/// A cost that is a number or a word.
struct Simple(CostSpec);

impl Spelled for Simple {
    const HARMLESS: &'static str = "text:1";
    const WANTED: &'static str =
        "a cost of at least 1, or where it is read, such as content_length, header:x-cost or usage";

    fn parse(text: &str) -> Result<Self, String> {
        match amount(text) {
            Some(0) => Err(String::new()),
            Some(cost) => Ok(Self(CostSpec::Fixed(cost))),
            None => CostPart::parse_part(text).map(|part| Self(CostSpec::Measured(part))),
        }
    }
}

impl<'de> Deserialize<'de> for Simple {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::spelled(deserializer)
    }
}

impl JsonSchema for Simple {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SimpleCost".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (amount, part) = (
            generator.subschema_for::<Amount>(),
            generator.subschema_for::<CostPart>(),
        );
        schemars::json_schema!({ "anyOf": [amount, part] })
    }
}

/// A cost that has fields.
#[derive(Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a cost such as { estimate: \"json:/max_tokens\", actual: usage } or { status: [401, 403] }"
)]
struct Fields {
    /// 1 for each response with one of these statuses, 0 for others: [401, 403, 5xx].
    #[serde(default)]
    status: Option<Vec<StatusRange>>,
    /// The cost that is charged before the request is served.
    #[serde(default)]
    estimate: Option<CostPart>,
    /// The actual cost, which is known when the request has been served.
    #[serde(default)]
    actual: Option<CostPart>,
    /// The cost of a request without an estimate: 1 unless set.
    #[serde(default)]
    default: Option<Amount>,
    /// The largest estimate; a larger one is cut to it.
    #[serde(default)]
    max: Option<Amount>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(untagged)]
enum Either {
    Simple(Simple),
    Fields(Fields),
}

impl Fields {
    fn cost(self) -> Result<CostSpec, &'static str> {
        let estimated = self.estimate.is_some() || self.actual.is_some();
        let numbers = self.default.is_some() || self.max.is_some();
        match (self.status, self.estimate) {
            (Some(_), _) if estimated || numbers => {
                Err("a cost is an `estimate` or a `status`: expected one of them")
            }
            (Some(status), _) if status.is_empty() => {
                Err("expected some statuses such as [401, 5xx], found an empty list")
            }
            (Some(status), _) => Ok(CostSpec::Status(status)),
            (None, Some(estimate)) if estimate.is_late() => Err(
                "expected an `estimate` that is known before the request is served, such as content_length, header:NAME or json:/POINTER",
            ),
            (None, Some(estimate)) => Ok(CostSpec::Estimated {
                estimate,
                actual: self.actual,
                default: self.default.map_or(1, |amount| amount.0),
                max: self.max.map(|amount| amount.0),
            }),
            (None, None) => Err("expected an `estimate` or a `status`, found neither"),
        }
    }
}

impl<'de> Deserialize<'de> for CostSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::deserialize(deserializer)? {
            Either::Simple(Simple(cost)) => Ok(cost),
            Either::Fields(fields) => fields.cost().map_err(de::Error::custom),
        }
    }
}

impl Serialize for CostSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(cost) => serializer.serialize_u64(*cost),
            Self::Measured(part) => part.serialize(serializer),
            Self::Status(status) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("status", status)?;
                map.end()
            }
            Self::Estimated {
                estimate,
                actual,
                default,
                max,
            } => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("estimate", estimate)?;
                if let Some(actual) = actual {
                    map.serialize_entry("actual", actual)?;
                }
                map.serialize_entry("default", default)?;
                if let Some(max) = max {
                    map.serialize_entry("max", max)?;
                }
                map.end()
            }
        }
    }
}

impl JsonSchema for CostSpec {
    fn schema_name() -> Cow<'static, str> {
        "Cost".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Either::json_schema(generator)
    }
}
