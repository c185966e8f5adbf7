//! Values that the program or other layers attach to a request, in its extensions: claims, descriptors and the body.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Facts about the caller that the program knows, by name: the claims of its token, the plan of its account. `claim:NAME` in a
/// file reads them from the extensions of a request.
///
/// ```
/// use plimsoll_engine::Claims;
///
/// let claims = Claims::from([("plan", "pro"), ("account", "7")]);
/// let request = http::Request::get("/").extension(claims).body(())?;
/// # Ok::<(), http::Error>(())
/// ```
///
/// The layer that authenticates the caller inserts them, outside of the [layer](crate::Limits::layer) of limits. Only
/// verified facts should be claims: a client that could choose its claims could choose its limits. Cloning is cheap,
/// and `Debug` leaves out the values, because they may be secrets.
///
/// In a file, a limit by account is `key: claim:account`, and a limit by plan `tiers: { by: claim:plan, pro: 100/s }`.
#[derive(Clone, Default)]
pub struct Claims(Arc<HashMap<String, String>>);

impl Claims {
    /// Returns the value of the claim with this name.
    /// Names are compared as they are: case matters.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Claims {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(claims: T) -> Self {
        let claims = claims.into_iter();
        Self(Arc::new(
            claims.map(|(name, is)| (name.into(), is.into())).collect(),
        ))
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for Claims {
    fn from(claims: [(K, V); N]) -> Self {
        claims.into_iter().collect()
    }
}

impl std::fmt::Debug for Claims {
    /// Leaves out the values, because they may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The entries of an Envoy descriptor. `descriptor:NAME` in a file reads them from the extensions of a request.
///
/// ```
/// use plimsoll_engine::Descriptors;
///
/// let descriptors = Descriptors(vec![("tenant".to_owned(), "anna".to_owned())]);
/// assert_eq!(descriptors.get("tenant"), Some("anna"));
/// ```
///
/// A server that speaks Envoy's protocol inserts them; `plimsoll-server` does. If a key is repeated, the first entry counts.
/// `Debug` leaves out the values, because they may be secrets.
#[derive(Clone, Default)]
pub struct Descriptors(pub Vec<(String, String)>);

impl Descriptors {
    /// Returns the value of the first entry with this key.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut entries = self.0.iter();
        let (_, value) = entries.find(|(key, _)| key == name)?;
        Some(value)
    }
}

impl std::fmt::Debug for Descriptors {
    /// Leaves out the values, because they may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(key, _)| key))
            .finish()
    }
}

/// The values of a request body that a [`BodyLayer`](crate::BodyLayer) has read. `form:NAME` and `json:/POINTER` in a file read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyValues {
    form: HashMap<String, String>,
    json: Option<Arc<serde_json::Value>>,
}

impl BodyValues {
    /// The values of a body of this type. Empty if it is neither a form nor JSON, or malformed.
    pub(crate) fn read(content_type: &str, text: &[u8]) -> Self {
        if Self::is_json(content_type) {
            let json = serde_json::from_slice(text).ok().map(Arc::new);
            return Self {
                json,
                ..Self::default()
            };
        }
        if !essence(content_type).eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Self::default();
        }
        let mut form = HashMap::new();
        for (name, value) in form_urlencoded::parse(text) {
            // The first value of a name counts, as in most parsers of forms.
            form.entry(name.into_owned())
                .or_insert_with(|| value.into_owned());
        }
        Self { form, json: None }
    }

    /// Whether a body of this type is JSON.
    pub(crate) fn is_json(content_type: &str) -> bool {
        let kind = essence(content_type);
        kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json")
    }

    pub(crate) fn form(&self, name: &str) -> Option<Cow<'_, str>> {
        self.form.get(name).map(|value| value.as_str().into())
    }

    /// A string, a number or a Boolean of a JSON body.
    pub(crate) fn json(&self, pointer: &str) -> Option<Cow<'_, str>> {
        match self.json.as_ref()?.pointer(pointer)? {
            serde_json::Value::String(text) => Some(text.as_str().into()),
            serde_json::Value::Number(number) => Some(number.to_string().into()),
            serde_json::Value::Bool(truth) => Some(truth.to_string().into()),
            _ => None,
        }
    }

    /// An integer of a JSON body, or the length of an array.
    pub(crate) fn number(&self, pointer: &str) -> Option<u64> {
        match self.json.as_ref()?.pointer(pointer)? {
            serde_json::Value::Number(number) => number.as_u64(),
            serde_json::Value::Array(list) => u64::try_from(list.len()).ok(),
            _ => None,
        }
    }
}

/// A content type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}
