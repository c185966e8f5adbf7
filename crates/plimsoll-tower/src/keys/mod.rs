//! Keys: which limit a request counts against.
//!
//! | key | read from | chosen by |
//! |---|---|---|
//! | [`Peer`] | the address of the connection, or the [user](UnixPeer) of a Unix socket | the network, the operating system |
//! | [`Forwarded`] | the client's address as trusted proxies report it: `X-Forwarded-For`, `Forwarded`, or a field of their own | the proxies |
//! | [`MethodKey`], `MatchedRoute` (feature `axum`) | the method, the route | the server: their number is bounded |
//! | [`HeaderKey`], [`CookieKey`], [`QueryKey`], [`PathKey`] | the request itself | **the client** |
//! | [`by`] | a closure | you |
//!
//! A pair of keys is a key: `(Peer::new(), MethodKey)`.
//!
//! A client that chooses its own key can choose a new one for every request, and then has no limit, or can use the limit of
//! another client. A key that the client writes should be verified first, as an API key is by an authenticating layer, or be
//! used behind a limit by address.
//!
//! Keys of text are [bounded]: text longer than [`MAX_LEN`] bytes is shortened, and stays different from all other keys.

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
pub use text::{MAX_LEN, bounded};
pub use trusted::TrustedProxies;
pub use unix::UnixPeer;

/// Extracts the key of a request.
///
/// The key is borrowed from the request where possible, so that a limit that already knows the key need not copy it:
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
    /// The borrowed type of the key: [`Address`], `str`.
    type Key: ?Sized
        + Hash
        + Eq
        + Sync
        + ToOwned<Owned: Hash + Eq + Clone + Send + Sync + 'static>
        + 'static;

    /// Returns the key of a request, or `None` if it has none.
    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, Self::Key>>;

    /// Returns whether the key identifies the caller, so that its limit is the caller's own. Default: `true`. A key
    /// that identifies the resource, such as a route, returns `false`; its refusals are then answered as those of a
    /// [full server](crate::answer::Class::Capacity) if no time to retry is known.
    fn is_of_caller(&self) -> bool {
        true
    }

    /// Returns why the key of this request is missing: a client error or a server error. Default: a client error.
    fn missing(&self, head: &Head<'_>) -> Missing {
        let _ = head;
        Missing::InRequest
    }
}

/// The reason why a request has no key. It determines the status of the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Missing {
    /// The client sent none: the answer is 400.
    InRequest,
    /// The server does not record it: the answer is 500. The text says how to fix that; it is the body of the answer and is logged
    /// once (feature `tracing`).
    InProgram(&'static str),
}
