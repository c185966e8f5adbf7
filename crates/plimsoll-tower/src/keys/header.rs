use std::borrow::Cow;

use http::HeaderName;
use http::header::InvalidHeaderName;

use super::KeyFrom;
use super::text::Bound;
use crate::Head;

/// The key is the value of a header field, for instance an API key.
///
/// If the field is repeated, the first line counts. A request in which the field is missing, empty or not UTF-8 has no key.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::HeaderKey};
///
/// let tenant = HeaderKey::named("x-tenant")?;
/// let request = http::Request::get("/").header("X-Tenant", "red").body(())?;
/// assert_eq!(tenant.key(&Head::of(&request)).as_deref(), Some("red"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderKey {
    name: HeaderName,
    bound: Bound,
}

impl HeaderKey {
    /// Takes the value of this field.
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self {
            name,
            bound: Bound::default(),
        }
    }

    /// Takes the value of the field with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if `name` is not a valid name of a header field.
    pub fn named(name: &str) -> Result<Self, InvalidHeaderName> {
        name.parse().map(Self::new)
    }

    /// Sets the length above which the key is [shortened](super::bounded). Default: [`MAX_LEN`](super::MAX_LEN).
    #[must_use]
    pub fn max_len(mut self, bytes: usize) -> Self {
        self.bound = Bound(bytes);
        self
    }
}

impl KeyFrom for HeaderKey {
    type Key = str;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        self.bound
            .borrowed(head.headers().get(&self.name)?.as_bytes())
    }
}
