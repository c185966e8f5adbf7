use std::borrow::Cow;

use http::header::COOKIE;

use super::KeyFrom;
use super::text::Bound;
use crate::Head;

/// The key is the value of a cookie, for instance of a session.
///
/// If there are several with that name, the first counts. A request without the cookie, or with an empty value or one
/// that is not UTF-8, has no key.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::CookieKey};
///
/// let request = http::Request::get("/").header("cookie", "theme=dark; session=abc").body(())?;
/// let key = CookieKey::new("session").key(&Head::of(&request));
/// assert_eq!(key.as_deref(), Some("abc"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieKey {
    name: String,
    bound: Bound,
}

impl CookieKey {
    /// Takes the value of the cookie with this name. Case matters.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            bound: Bound::default(),
        }
    }

    /// Sets the length above which the key is [shortened](super::bounded). Default: [`MAX_LEN`](super::MAX_LEN).
    #[must_use]
    pub fn max_len(mut self, bytes: usize) -> Self {
        self.bound = Bound(bytes);
        self
    }

    /// The value in this pair, if its name is that of the cookie.
    fn value<'r>(&self, pair: &'r [u8]) -> Option<&'r [u8]> {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..equals], pair[equals + 1..].trim_ascii());
        if name.trim_ascii() != self.name.as_bytes() {
            return None;
        }
        let quoted = value
            .strip_prefix(b"\"")
            .and_then(|open| open.strip_suffix(b"\""));
        Some(quoted.unwrap_or(value))
    }
}

impl KeyFrom for CookieKey {
    type Key = str;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        // HTTP/2 may send each cookie in a line of its own.
        let lines = head.headers().get_all(COOKIE).iter();
        let mut pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        self.bound
            .borrowed(pairs.find_map(|pair| self.value(pair))?)
    }
}
