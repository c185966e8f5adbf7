use std::borrow::Cow;

use super::KeyFrom;
use super::text::Bound;
use crate::Head;

/// The key is a parameter of the query, decoded.
///
/// Names and values are decoded as forms encode them: `+` is a blank, `%41` is an `A`, and invalid UTF-8 becomes
/// `U+FFFD`. If the parameter is repeated, the first counts. A request in which the parameter is missing or empty has
/// no key.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::QueryKey};
///
/// let request = http::Request::get("/search?q=tea&ten%61nt=red+bull").body(())?;
/// let key = QueryKey::new("tenant").key(&Head::of(&request));
/// assert_eq!(key.as_deref(), Some("red bull"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryKey {
    name: String,
    bound: Bound,
}

impl QueryKey {
    /// Takes the value of the parameter with this name. Case matters.
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
}

impl KeyFrom for QueryKey {
    type Key = str;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        let mut pairs = head.uri().query()?.split('&');
        let (_, value) = pairs.find_map(|pair| {
            let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
            // Decoded as well, as the application does: `ten%61nt` must not evade the limit.
            let mut name = form_urlencoded::parse(name.as_bytes());
            let found = name.any(|(name, _)| name == self.name);
            // The value is decoded last, because decoding may allocate.
            found.then(|| form_urlencoded::parse(pair.as_bytes()).next())?
        })?;
        self.bound.key(value)
    }
}
