use std::borrow::Cow;

use super::KeyFrom;
use super::text::Bound;
use crate::Head;

/// The key is the path, as it was written and without the query.
///
/// A client can request any number of different paths. If there is a router, `MatchedRoute` (with the feature `axum`)
/// is the better key: the number of routes is bounded.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::PathKey};
///
/// let request = http::Request::get("/items/7?page=2").body(())?;
/// assert_eq!(PathKey::new().key(&Head::of(&request)).as_deref(), Some("/items/7"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathKey {
    bound: Bound,
}

impl PathKey {
    /// Takes the path of a request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the length above which the key is [shortened](super::bounded). Default: [`MAX_LEN`](super::MAX_LEN).
    #[must_use]
    pub fn max_len(mut self, bytes: usize) -> Self {
        self.bound = Bound(bytes);
        self
    }
}

impl KeyFrom for PathKey {
    type Key = str;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        self.bound.key(Cow::Borrowed(head.uri().path()))
    }
}
