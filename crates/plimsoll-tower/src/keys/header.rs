use std::borrow::Cow;

use http::HeaderName;
use http::header::InvalidHeaderName;

use super::KeyFrom;
use super::text::Bound;
use crate::Head;

/// The key is the value of a header field, for instance an API key.
///
/// Of a repeated field the first line counts. A field that is missing, empty or not UTF-8 gives no key.
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
    /// The value of this field.
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self {
            name,
            bound: Bound::default(),
        }
    }

    /// The value of the field of this name.
    ///
    /// # Errors
    ///
    /// If no header field can be called that.
    pub fn named(name: &str) -> Result<Self, InvalidHeaderName> {
        name.parse().map(Self::new)
    }

    /// [Shortens](super::bounded) what is longer than this; [`LONGEST`](super::LONGEST) unless set.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
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
