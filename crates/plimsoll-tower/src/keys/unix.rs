//! The user of a peer on a Unix socket.

use std::net::IpAddr;

use super::Address;

/// The user of a peer on a Unix socket, in the extensions of a request. The code that accepts connections inserts it.
///
/// A peer on a Unix socket has no network address. As a key it becomes an address in `100::/32`, from which no packet can
/// come, with the user id in the next 32 bits: each user has a limit of its own, for all its processes, which no network peer
/// can share. Peers whose user the operating system does not report share one limit. If [fewer than 64
/// bits](super::Peer::ipv6_prefix) of an IPv6 address form the key, several users share a key as addresses do.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::{Peer, UnixPeer}};
///
/// let request = http::Request::get("/").extension(UnixPeer::user(1000)).body(())?;
/// let key = Peer::new().key(&Head::of(&request));
/// assert_eq!(key.unwrap().to_string(), "100:0:0:3e8::/64");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With axum (feature `axum`) it is the connect info of a `UnixListener`, also of one in a
/// `plimsoll_tokio::LimitedListener`:
///
/// ```
/// # #[cfg(all(feature = "axum", unix))]
/// # async fn doc() -> std::io::Result<()> {
/// use axum::{Router, routing::get};
/// use plimsoll_tower::{keys::UnixPeer, per_address};
/// use tokio::net::UnixListener;
///
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(per_address(5, 10));
/// let listener = UnixListener::bind("/run/app.sock")?;
/// axum::serve(listener, app.into_make_service_with_connect_info::<UnixPeer>()).await
/// # }
/// ```
///
/// A tonic server inserts it by itself (feature `tonic`). If the peer is a proxy of yours, trust it:
/// [`TrustedProxies::unix_sockets`](super::TrustedProxies::unix_sockets).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnixPeer(u32);

impl UnixPeer {
    /// A peer whose user is unknown. No user has this id.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// Creates a peer with this user id.
    #[must_use]
    pub const fn user(uid: u32) -> Self {
        Self(uid)
    }

    /// Returns the address that represents the user as a key.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        Address::ip_of_user(self.0)
    }

    /// Returns the user of the peer of this socket.
    #[cfg(all(feature = "axum", unix))]
    #[must_use]
    pub fn of(stream: &tokio::net::UnixStream) -> Self {
        let credentials = stream.peer_cred();
        credentials.map_or(Self::UNKNOWN, |credentials| Self::user(credentials.uid()))
    }
}

#[cfg(all(feature = "axum", unix))]
mod axum {
    use ::axum::extract::connect_info::Connected;
    use ::axum::serve::IncomingStream;
    use plimsoll_tokio::LimitedListener;
    use tokio::net::UnixListener;

    use super::UnixPeer;

    impl Connected<IncomingStream<'_, LimitedListener<UnixListener>>> for UnixPeer {
        fn connect_info(stream: IncomingStream<'_, LimitedListener<UnixListener>>) -> Self {
            Self::of(stream.io().get_ref())
        }
    }

    impl Connected<IncomingStream<'_, UnixListener>> for UnixPeer {
        fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
            Self::of(stream.io())
        }
    }
}
