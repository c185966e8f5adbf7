use std::borrow::Cow;
use std::fmt;
use std::hash::Hash;

use super::KeyFrom;
use crate::Head;

/// Takes the key that a closure returns.
///
/// Use it for example for the subject of a token. Here the layer that verifies the token has inserted its claims into
/// the extensions; the client chooses the claims of a token that was not verified.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::by};
///
/// #[derive(Clone)]
/// struct Claims { sub: String }
///
/// let subject = by(|head| head.extensions().get::<Claims>().map(|claims| claims.sub.clone()));
///
/// let claims = Claims { sub: "ann".into() };
/// let request = http::Request::get("/").extension(claims).body(())?;
/// assert_eq!(subject.key(&Head::of(&request)).unwrap().as_str(), "ann");
/// # Ok::<(), http::Error>(())
/// ```
///
/// The length of the key is not bounded; [`bounded`](super::bounded) shortens text.
pub fn by<F, K>(key: F) -> By<F>
where
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    By(key)
}

/// A key from a closure. [`by`] returns one.
#[derive(Clone, Copy)]
pub struct By<F>(F);

impl<F, K> KeyFrom for By<F>
where
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    type Key = K;

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, K>> {
        (self.0)(head).map(Cow::Owned)
    }
}

impl<F> fmt::Debug for By<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("By(..)")
    }
}
