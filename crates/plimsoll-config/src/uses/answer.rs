//! The response to a refused request.

use std::fmt;

use plimsoll_spec::Named;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::text::{Spelled, spelled_as_text};

/// The response to a refused request. Fields that are not set have their defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "an answer such as { status: 429, body: \"too fast\" }"
)]
#[non_exhaustive]
pub struct AnswerSpec {
    /// The status: 429 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The content type of the body: text/plain unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Header fields in addition to `Retry-After` and the fields about limits.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    #[schemars(schema_with = "header_fields")]
    pub headers: Named<String>,
    /// A problem document instead of the body, as application/problem+json (RFC 9457).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemSpec>,
}

/// The fields of a problem document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a problem such as { title: \"too many requests\" }"
)]
#[non_exhaustive]
pub struct ProblemSpec {
    /// The URI of the kind of problem.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The kind of problem in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// An explanation of this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Header fields by name, with their values.
pub(crate) fn header_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Header fields, by name.",
        "type": "object",
        "additionalProperties": { "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "boolean" }] }
    })
}

/// The status of a refusal: 400 to 599. A file with another number has a mistake:
///
/// ```
/// use plimsoll_config::{Config, Format};
///
/// let text = "limits: { api: { rate: 10/s, answer: { status: 200 } } }";
/// let error = Config::from_str("limits.yaml", text, Format::Yaml).unwrap_err();
/// assert!(error.to_string().contains("expected a status from 400 to 599"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Status(u16);

impl Status {
    /// Returns the number.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }
}

/// A range of statuses, both ends included: `401`, `5xx`, `400-404`. `Display` writes it as a file has it.
///
/// Costs by status count responses with one of several ranges: see [`CostSpec::Status`](super::CostSpec::Status).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct StatusRange {
    /// The first status.
    pub from: u16,
    /// The last status.
    pub to: u16,
}

impl StatusRange {
    /// Returns whether a status is in the range.
    ///
    /// ```
    /// use plimsoll_config::uses::CostSpec;
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "limits: { logins: { kind: fixed_window, limit: 5, window: 10m, cost: { status: [401, 5xx] } } }";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let CostSpec::Status(ranges) = &config.use_of("logins").unwrap().cost else { unreachable!() };
    /// let counts = |status| ranges.iter().any(|range| range.contains(status));
    /// assert!(counts(401) && counts(503) && !counts(200));
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn contains(&self, status: u16) -> bool {
        self.from <= status && status <= self.to
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        match (from, to) {
            (from, to) if from == to => write!(f, "{from}"),
            (from, to) if from % 100 == 0 && *to == from + 99 => write!(f, "{}xx", from / 100),
            _ => write!(f, "{from}-{to}"),
        }
    }
}

impl Spelled for Status {
    const HARMLESS: &'static str = "text:429";
    const WANTED: &'static str = "a status from 400 to 599";

    fn parse(text: &str) -> Result<Self, String> {
        let number = text.parse().ok();
        let refusal = number.filter(|number| (400..=599).contains(number));
        refusal.map(Self).ok_or_else(String::new)
    }

    fn number(&self) -> Option<u16> {
        Some(self.0)
    }
}

impl Spelled for StatusRange {
    const HARMLESS: &'static str = "text:429";
    const WANTED: &'static str = "a status such as 401, 5xx or 400-404";

    fn parse(text: &str) -> Result<Self, String> {
        let status = |text: &str| {
            let number = text.parse::<u16>().ok();
            number.filter(|number| (100..=599).contains(number))
        };
        let range = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => {
                let first = status(&format!("{class}00"));
                first.map(|from| (from, from + 99))
            }
            (None, Some((from, to))) => status(from).zip(status(to)),
            (None, None) => status(text).map(|one| (one, one)),
        };
        let range = range.filter(|(from, to)| from <= to);
        range
            .map(|(from, to)| Self { from, to })
            .ok_or_else(String::new)
    }

    fn number(&self) -> Option<u16> {
        (self.from == self.to).then_some(self.from)
    }
}

spelled_as_text! {
    Status => {
        "description": "The status of a refusal.",
        "type": "integer", "minimum": 400, "maximum": 599
    }
    StatusRange => {
        "description": "A status, or several: 401, 5xx or 400-404.",
        "anyOf": [
            { "type": "integer", "minimum": 100, "maximum": 599 },
            { "type": "string", "pattern": "^[1-5](xx|[0-9]{2}(-[1-5][0-9]{2})?)$" }
        ]
    }
}
