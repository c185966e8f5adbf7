//! Keys: which limit a request counts against.
//!
//! | key | read from | who decides what it is |
//! |---|---|---|
//! | [`Peer`] | the address the connection comes from, or the [user](UnixPeer) of a Unix socket | the network, the system |
//! | [`Forwarded`] | what trusted proxies say of the client's address: `X-Forwarded-For`, `Forwarded`, a field of theirs | the proxies |
//! | [`MethodKey`], `MatchedRoute` (feature `axum`) | the route, the method | the server: there are only so many |
//! | [`HeaderKey`], [`CookieKey`], [`QueryKey`], [`PathKey`] | the request's own words | **the client** |
//! | [`by`] | a closure | you |
//!
//! A pair of keys is a key: `(Peer::new(), MethodKey)`.
//!
//! A client that chooses its own key can choose a new one with every request, and then has no limit, or that of somebody
//! else. A key that the client writes should be verified first, as an API key is by the layer that authenticates, or be
//! used behind a limit by address.
//!
//! Keys of text are [bounded]: what is longer than [`LONGEST`] bytes becomes shorter, but stays different from
//! all others.

mod add_peer;
mod address;
mod by;
mod cookie;
mod forwarded;
mod header;
mod hops;
mod method;
mod pair;
mod path;
pub(crate) mod peer;
mod query;
#[cfg(feature = "axum")]
mod route;
mod text;
mod trusted;
mod unix;

use std::borrow::Cow;
use std::hash::Hash;

use crate::Head;

pub use add_peer::AddPeer;
pub use address::Address;
pub use by::{By, by};
pub use cookie::CookieKey;
pub use forwarded::Forwarded;
pub use header::HeaderKey;
pub use method::MethodKey;
pub use path::PathKey;
pub use peer::{Peer, PeerAddr};
pub use query::QueryKey;
#[cfg(feature = "axum")]
pub use route::MatchedRoute;
pub use text::{LONGEST, bounded};
pub use trusted::TrustedProxies;
pub use unix::UnixPeer;

/// Finds the key of a request.
///
/// The key is borrowed from the request where it stands there already, so that a limit which knows the key need
/// not copy it:
///
/// ```
/// use plimsoll::{Keyed, TokenBucket};
/// use plimsoll_tower::{Head, KeyFrom, keys::HeaderKey};
///
/// let per_tenant: Keyed<String, _> = Keyed::new(TokenBucket::per_second(2));
/// let tenant = HeaderKey::named("x-tenant")?;
///
/// let request = http::Request::get("/").header("x-tenant", "red").body(())?;
/// if let Some(key) = tenant.key(&Head::of(&request)) {
///     assert!(per_tenant.try_acquire(&*key, 1).is_ok());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyFrom: Send + Sync + 'static {
    /// What a limit is kept for: [`Address`], `str`.
    type Key: ?Sized
        + Hash
        + Eq
        + Sync
        + ToOwned<Owned: Hash + Eq + Clone + Send + Sync + 'static>
        + 'static;

    /// The key of this request, or none if it has none.
    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, Self::Key>>;

    /// Whether the key says who is asking, so that its limit is the caller's own; it does unless implemented. A key that says what
    /// is asked for, such as a route, does not.
    fn is_of_caller(&self) -> bool {
        true
    }

    /// Whose fault it is that this request has no key; the caller's unless implemented.
    fn missing(&self, head: &Head<'_>) -> Missing {
        let _ = head;
        Missing::InRequest
    }
}

/// Why a request has no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Missing {
    /// The caller left it out: the answer is 400.
    InRequest,
    /// The program does not keep it, and this is what to do about it: the answer is 500, and the text is logged once
    /// (feature `tracing`).
    InProgram(&'static str),
}
