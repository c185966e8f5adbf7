//! Stores, and the fields of limiters in a store.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tree::Written;
use crate::value::{Number, Period, Positive, Span, micros, millis, positive};

/// A Redis with limiters that all processes share. The first decision connects to it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a store such as { url: \"redis://127.0.0.1:6379\" }"
)]
#[schemars(extend("oneOf" = [{ "required": ["url"] }, { "required": ["cluster"] }]))]
#[non_exhaustive]
pub struct Store {
    /// The address of one server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// The addresses of some nodes of a Redis Cluster, in place of `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Vec<Url>>,
    /// The prefix of all keys. Stores with different namespaces share nothing.
    #[serde(default = "plimsoll")]
    pub namespace: String,
    /// The time-out of a decision, including the connection. After that, the `outage` of the limiter answers.
    #[serde(default = "millis::<50>")]
    pub deadline: Period,
    /// The secret with which keys are digested, the same for all processes that share limits; derived from the namespace
    /// unless set. It is read when the limits are built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret: Option<Secret>,
    /// Stores keys in plain text instead of digests, so that people can read them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw_keys: bool,
}

/// The source of a secret. The secret itself is not written in a file of limits, and is never printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "where the secret is, such as { env: KEY_SECRET } or { file: /run/secrets/keys }"
)]
#[schemars(extend("oneOf" = [{ "required": ["env"] }, { "required": ["file"] }]))]
#[non_exhaustive]
pub struct Secret {
    /// The name of an environment variable that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The path of a file that holds it. A line break at its end is not part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Secret {
    /// Reads the secret from the environment or from its file.
    ///
    /// # Errors
    ///
    /// Returns a message with the source, and never with a part of the secret, if the secret cannot be read or is empty.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        let (what, secret) = match (&self.env, &self.file) {
            (Some(name), _) => {
                let value = std::env::var_os(name).ok_or("it is not set".to_owned());
                let value = value.map(std::ffi::OsString::into_encoded_bytes);
                (format!("the environment variable {name}"), value)
            }
            (None, Some(path)) => {
                let text = std::fs::read(path).map_err(|error| error.to_string());
                (format!("the file {path}"), text)
            }
            (None, None) => return Err("expected `env` or `file`, found neither".to_owned()),
        };
        let mut secret = secret.map_err(|why| format!("no secret in {what}: {why}"))?;
        if self.file.is_some() && secret.ends_with(b"\n") {
            secret.pop();
        }
        if secret.is_empty() {
            return Err(format!("no secret in {what}: it is empty"));
        }
        Ok(secret)
    }
}

impl Store {
    /// Returns the identity of the store: its addresses, its namespace, and the form of its keys. Stores that compare
    /// equal share their states.
    #[must_use]
    pub fn place(&self) -> impl PartialEq {
        let naming = (&self.key_secret, self.raw_keys);
        (&self.url, &self.cluster, &self.namespace, naming)
    }
}

fn plimsoll() -> String {
    "plimsoll".to_owned()
}

/// The address of a Redis. `Display` and `Debug` hide the password, and show variables as they are written in the file.
///
/// ```
/// use plimsoll_spec::{Units, Url, document, read_one};
///
/// let root = document("redis://anna:secret@10.0.0.1:6379", "an address")?;
/// let url: Url = read_one(&root, Units::Required)?;
/// assert_eq!(url.to_string(), "redis://anna:***@10.0.0.1:6379");
/// assert_eq!(url.address(), "redis://anna:secret@10.0.0.1:6379");
/// # Ok::<(), plimsoll_spec::Problem>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    address: String,
    written: Option<Written>,
}

impl Url {
    /// The schemes of addresses: plain and TLS.
    pub const SCHEMES: [&str; 2] = ["redis://", "rediss://"];
    /// The description of a valid address, for messages.
    pub const WANTED: &str = "the address of a Redis such as redis://127.0.0.1:6379, or rediss://127.0.0.1:6379 with TLS";

    /// Returns the address with its password. It must not be logged.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the part of an invalid address that a message may show: the text from its last `@` on, since a password
    /// may be before it.
    pub fn hidden(text: &str) -> Cow<'_, str> {
        match text.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}").into(),
            None => text.into(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match &self.written {
            None => self.address.as_str(),
            // There may be a password before or after a variable.
            Some(Written::Text(text)) => text.as_str(),
            Some(written) => return written.fmt(f),
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return f.write_str(&Self::hidden(text));
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let login = authority.rsplit_once('@');
        match login.and_then(|(who, host)| Some((who.split_once(':')?, host))) {
            // The name of a variable is not a password.
            Some(((_, password), _)) if is_variable(password) => f.write_str(text),
            Some(((user, _), host)) => write!(f, "{scheme}://{user}:***@{host}{path}"),
            None => f.write_str(text),
        }
    }
}

/// Whether all of it comes from the environment, as a file has it.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    name.is_some_and(|name| !name.contains([':', '{', '}']))
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

impl Serialize for Url {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, value) = match &self.written {
            Some(Written::Env(name)) => ("env", name),
            Some(Written::File(path)) => ("file", path),
            _ => return serializer.collect_str(self),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(key, value)?;
        map.end()
    }
}

/// Built from the two parts that the reader of files knows: the address, and its text in the file.
impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Url;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Url::WANTED)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, parts: D) -> Result<Url, D::Error> {
                let [address, how, text] = <[String; 3]>::deserialize(parts)?;
                let written = match how.as_str() {
                    "text" => Some(Written::Text(text)),
                    "env" => Some(Written::Env(text)),
                    "file" => Some(Written::File(text)),
                    _ => None,
                };
                Ok(Url { address, written })
            }
        }

        deserializer.deserialize_newtype_struct("Url", Parts)
    }
}

impl JsonSchema for Url {
    fn schema_name() -> Cow<'static, str> {
        "Url".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let secret = generator.subschema_for::<Secret>();
        json_schema!({
            "description": "The address of a Redis, such as redis://user:password@host:6379/0; rediss://… with TLS. ${NAME} in it comes from the environment; all of it from there with { env: NAME }, or from a file with { file: PATH }.",
            "anyOf": [{ "type": "string", "pattern": "^(rediss?://|[$][{]).+$" }, secret]
        })
    }
}

/// The answer while the store cannot decide.
// Exhaustive, like `Always`, because code that builds a store has to handle every form. Not a doc comment, because
// those are in the schema.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(rename = "either", rename_all = "snake_case")]
#[schemars(rename = "Outage", untagged)]
pub enum Outage {
    /// The same answer for all requests.
    Word(Always),
    /// Each process decides by itself.
    Local(Share),
}

/// The same answer for all requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Always {
    /// Everything is granted.
    Admit,
    /// Everything is refused as unavailable.
    Deny,
}

/// A share of the limit for each process.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "`admit`, `deny` or a share such as { local: 0.25 }"
)]
#[non_exhaustive]
pub struct Share {
    /// The fraction of the limit that each process grants by itself, at most 1: with 4 processes, 0.25 is the limit again.
    pub local: Number,
}

impl Serialize for Outage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Word(word) => word.serialize(serializer),
            Self::Local(share) => share.serialize(serializer),
        }
    }
}

/// Borrowing: a process takes from the store in batches, and decides by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a way to borrow such as { max: 50 }")]
#[non_exhaustive]
pub struct Borrow {
    /// The largest amount that a process holds for a key, and so may grant late: 1/20 of the limit unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Positive>,
    /// The time for which a batch should last.
    #[serde(default = "micros::<50_000>")]
    pub target: Span,
    /// The time after which unused tokens are returned.
    #[serde(default = "millis::<1000>")]
    pub keep: Period,
    /// The largest number of keys with batches. The store decides for others.
    #[serde(default = "positive::<10_000>")]
    pub max_keys: Positive,
}

#[cfg(test)]
mod tests {
    use super::{Url, Written};

    #[test]
    fn a_password_is_not_shown() {
        let url = |address: &str| Url {
            address: address.to_owned(),
            written: None,
        };
        let shown = |address: &str| url(address).to_string();
        assert_eq!(shown("redis://h:6379/0"), "redis://h:6379/0");
        assert_eq!(shown("redis://anna@h"), "redis://anna@h");
        assert_eq!(shown("redis://anna:x@y@h/1"), "redis://anna:***@h/1");
        assert_eq!(shown("rediss://:secret@h:1"), "rediss://:***@h:1");
        assert_eq!(shown("redis://h/?a=b@c:d"), "redis://h/?a=b@c:d");
        let same = shown("redis://anna:secret@h");
        assert_eq!(shown(&same), same);
        assert_eq!(Url::hidden("anna:sec/ret@h"), "…@h");
        assert_eq!(Url::hidden("postgres://h"), "postgres://h");
        let written = |text: &str| {
            let written = Some(Written::Text(text.to_owned()));
            let address = "redis://a:secret@h".to_owned();
            Url { address, written }.to_string()
        };
        assert_eq!(written("${REDIS_URL}"), "${REDIS_URL}");
        assert_eq!(
            written("redis://a:${PASSWORD}@h"),
            "redis://a:${PASSWORD}@h"
        );
        assert_eq!(written("redis://a:x${PASSWORD}@h"), "redis://a:***@h");
        assert_eq!(
            written("redis://a:${PASSWORD:-secret}@h"),
            "redis://a:***@h"
        );
        assert!(!format!("{:?}", url("redis://a:secret@h")).contains("secret"));
    }
}
