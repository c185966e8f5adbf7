//! The key of a limit.

use std::borrow::Cow;
use std::fmt;

use plimsoll_spec::scalar::nearest;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{Spelled, spelled_as_text};

/// The key of a request: one part, or several in this order. `Display` joins the parts with `|`.
///
/// Two requests share the state of a limit if all parts of their keys are equal. A request that lacks a part has no key: see
/// [`WithoutKey`](super::WithoutKey).
///
/// ```
/// use plimsoll_config::uses::{KeyPart, KeySpec};
///
/// let key = KeySpec(vec![KeyPart::Client, KeyPart::Header("x-user".to_owned())]);
/// assert_eq!(key.to_string(), "client|header:x-user");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeySpec(pub Vec<KeyPart>);

impl KeySpec {
    /// The separator of parts in the text of a key of several parts, as in [`overrides`](super::Use::overrides):
    ///
    /// ```
    /// use plimsoll_config::{Config, Format};
    ///
    /// let text = "
    /// limits:
    ///   per_user:
    ///     rate: 10/s
    ///     key: [client, header:x-user]
    ///     overrides: { '10.0.0.1|anna': unlimited }
    /// ";
    /// let config = Config::from_str("limits.yaml", text, Format::Yaml)?;
    /// let (key, _) = config.use_of("per_user").unwrap().overrides.iter().next().unwrap();
    /// assert_eq!(key, "10.0.0.1|anna");
    /// # Ok::<(), plimsoll_config::ConfigError>(())
    /// ```
    pub const SEPARATOR: char = '|';
}

/// A part of a key: the place of a request from which it is read. `Display` writes it as a file has it.
///
/// A client can change the parts that it writes (`header`, `cookie`, `query`, `path`, `form`, `json`) with each
/// request. Use them behind a limit by `client`, or if the program has verified them.
///
/// ```
/// use plimsoll_config::uses::KeyPart;
///
/// assert_eq!(KeyPart::Query("user".to_owned()).to_string(), "query:user");
/// assert!(KeyPart::Json("/user".to_owned()).needs_body());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum KeyPart {
    /// `client`: the address of the client, behind the proxies that the file trusts.
    Client,
    /// `peer`: the address at the other end of the connection.
    Peer,
    /// `method`: the method.
    Method,
    /// `host`: the host of the request.
    Host,
    /// `path`: the path.
    Path,
    /// `route`: the route of the file that the request takes.
    Route,
    /// `header:NAME`: a header field. Its name is in lower case.
    Header(String),
    /// `cookie:NAME`: a cookie.
    Cookie(String),
    /// `query:NAME`: a parameter of the query.
    Query(String),
    /// `segment:N`: a segment of the path, counted from 1.
    Segment(usize),
    /// `metadata:NAME`: an entry of the metadata of a gRPC call. Its name is in lower case.
    Metadata(String),
    /// `descriptor:NAME`: an entry of an Envoy descriptor.
    Descriptor(String),
    /// `claim:NAME`: a fact that the program knows about the caller, such as a claim of its token.
    Claim(String),
    /// `form:NAME`: a field of a form in the body.
    Form(String),
    /// `json:/POINTER`: a value of a JSON body, by its pointer (RFC 6901).
    Json(String),
    /// `constant:TEXT`: the same text for every request.
    Constant(String),
}

/// Parts that are one word.
const WORDS: [(&str, KeyPart); 6] = [
    ("client", KeyPart::Client),
    ("peer", KeyPart::Peer),
    ("method", KeyPart::Method),
    ("host", KeyPart::Host),
    ("path", KeyPart::Path),
    ("route", KeyPart::Route),
];

/// The prefixes of parts that have a name.
const NAMING: [&str; 10] = [
    "header",
    "cookie",
    "query",
    "segment",
    "metadata",
    "descriptor",
    "claim",
    "form",
    "json",
    "constant",
];

impl KeyPart {
    /// The prefix or word, and the name.
    fn spelling(&self) -> (&'static str, Option<Cow<'_, str>>) {
        let (word, name) = match self {
            Self::Client => return ("client", None),
            Self::Peer => return ("peer", None),
            Self::Method => return ("method", None),
            Self::Host => return ("host", None),
            Self::Path => return ("path", None),
            Self::Route => return ("route", None),
            Self::Segment(number) => return ("segment", Some(number.to_string().into())),
            Self::Header(name) => ("header", name),
            Self::Cookie(name) => ("cookie", name),
            Self::Query(name) => ("query", name),
            Self::Metadata(name) => ("metadata", name),
            Self::Descriptor(name) => ("descriptor", name),
            Self::Claim(name) => ("claim", name),
            Self::Form(name) => ("form", name),
            Self::Json(pointer) => ("json", pointer),
            Self::Constant(text) => ("constant", text),
        };
        (word, Some(name.as_str().into()))
    }

    /// Returns whether it is read from the body of a request. A server then buffers the body before it decides.
    #[must_use]
    pub const fn needs_body(&self) -> bool {
        matches!(self, Self::Form(_) | Self::Json(_))
    }
}

/// The spelling in a file.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spelling() {
            (word, None) => f.write_str(word),
            (word, Some(name)) => write!(f, "{word}:{name}"),
        }
    }
}

impl Spelled for KeyPart {
    const HARMLESS: &'static str = "text:client";
    const WANTED: &'static str = "what a key is read from, such as client, header:authorization, query:user, segment:2 or json:/user";

    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, part)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(part.clone());
        }
        let known = || WORDS.iter().map(|(word, _)| *word).chain(NAMING);
        let Some((word, name)) = text.split_once(':') else {
            if NAMING.contains(&text) {
                return Err(format!(": {text} of what? write `{text}:NAME`"));
            }
            let known: Vec<&str> = known().collect();
            return Err(nearest(text, known.iter().copied()));
        };
        let owned = || name.to_owned();
        let field = || field_name(name);
        Ok(match word {
            _ if name.is_empty() => return Err(format!(": nothing is named after `{word}:`")),
            "header" => Self::Header(field()?),
            "metadata" => Self::Metadata(field()?),
            "cookie" => Self::Cookie(owned()),
            "query" => Self::Query(owned()),
            "descriptor" => Self::Descriptor(owned()),
            "claim" => Self::Claim(owned()),
            "form" => Self::Form(owned()),
            "constant" => Self::Constant(owned()),
            "json" => Self::Json(pointer(name)?),
            "segment" => Self::Segment(segment(name)?),
            _ => {
                let known: Vec<&str> = known().collect();
                return Err(nearest(word, known.iter().copied()));
            }
        })
    }
}

/// The name of a header field, in lower case.
pub(super) fn field_name(name: &str) -> Result<String, String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if !name.is_empty() && name.chars().all(token) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(": no header field can have this name".to_owned())
}

/// A pointer into a JSON document.
pub(super) fn pointer(text: &str) -> Result<String, String> {
    let escapes = text.split('~').skip(1);
    if text.starts_with('/') && escapes.into_iter().all(|rest| rest.starts_with(['0', '1'])) {
        return Ok(text.to_owned());
    }
    Err(format!(
        ": a pointer begins with `/`, such as json:/{}",
        text.trim_matches('/')
    ))
}

fn segment(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| ": segments of a path are counted from 1 to 64".to_owned())
}

spelled_as_text! {
    KeyPart => {
        "description": "What a key is read from: client, peer, method, host, path, route, header:NAME, cookie:NAME, query:NAME, segment:N (from 1), metadata:NAME, descriptor:NAME, claim:NAME, form:NAME, json:/POINTER or constant:TEXT.",
        "type": "string",
        "anyOf": [
            { "enum": ["client", "peer", "method", "host", "path", "route"] },
            { "pattern": "^(header|cookie|query|segment|metadata|descriptor|claim|form|json|constant):.+$" }
        ]
    }
}

/// One part, or a list of them.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(untagged)]
enum OneOrMany {
    One(KeyPart),
    Many(Vec<KeyPart>),
}

impl<'de> Deserialize<'de> for KeySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(part) => vec![part],
            OneOrMany::Many(parts) => parts,
        };
        Ok(Self(parts))
    }
}

impl Serialize for KeySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [part] => part.serialize(serializer),
            parts => parts.serialize(serializer),
        }
    }
}

impl JsonSchema for KeySpec {
    fn schema_name() -> Cow<'static, str> {
        "Key".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        OneOrMany::json_schema(generator)
    }
}

/// The parts as a file has them, with `|` between them.
impl fmt::Display for KeySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                write!(f, "{}", Self::SEPARATOR)?;
            }
            write!(f, "{part}")?;
        }
        Ok(())
    }
}
