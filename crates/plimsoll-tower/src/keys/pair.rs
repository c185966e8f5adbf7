use std::borrow::Cow;

use super::{KeyFrom, Missing};
use crate::Head;

type Owned<A> = <<A as KeyFrom>::Key as ToOwned>::Owned;

/// A pair of keys is a key. A request that lacks one of them has no key.
///
/// The pair is a tuple and not a joined text, so two different pairs are never equal. Each text in it is copied.
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use plimsoll_tower::keys::{Address, HeaderKey, Peer};
/// use plimsoll_tower::{Head, KeyFrom};
///
/// let both = (Peer::new(), HeaderKey::named("x-tenant")?);
/// let limits: Keyed<(Address, String), _> = Keyed::new(TokenBucket::per_second(2));
///
/// let peer: std::net::SocketAddr = "192.0.2.1:40000".parse()?;
/// let request = http::Request::get("/").extension(peer).header("x-tenant", "red").body(())?;
/// let key = both.key(&Head::of(&request)).unwrap();
/// assert!(limits.try_acquire(&*key, 1).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<A: KeyFrom, B: KeyFrom> KeyFrom for (A, B) {
    type Key = (Owned<A>, Owned<B>);

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, Self::Key>> {
        let (first, second) = (self.0.key(head)?, self.1.key(head)?);
        Some(Cow::Owned((first.into_owned(), second.into_owned())))
    }

    fn is_of_caller(&self) -> bool {
        self.0.is_of_caller() || self.1.is_of_caller()
    }

    fn missing(&self, head: &Head<'_>) -> Missing {
        if self.0.key(head).is_none() {
            self.0.missing(head)
        } else {
            self.1.missing(head)
        }
    }
}
