//! Who is at the other end of a Unix socket.

use std::net::IpAddr;

use super::Address;

/// The user at the other end of a Unix socket, who has no address of a network: put into the extensions of a request by
/// whoever accepted the connection.
///
/// As a key it is an address that no packet can come from, in `100::/32`, with the number of the user in the next 32 bits:
/// each user has a limit of its own, whatever process it connects from, and the addresses of networks are nobody's. Users
/// that the operating system does not tell share one. If [fewer than 64 bits](super::Peer::ipv6_prefix) of an IPv6
/// address count, users are taken together as addresses are.
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
/// A tonic server tells it by itself (feature `tonic`). Where a proxy of yours is at the other end, trust it:
/// [`TrustedProxies::unix_sockets`](super::TrustedProxies::unix_sockets).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnixPeer(u32);

impl UnixPeer {
    /// Nobody knows who it is. No user has this number.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// The user of this number.
    #[must_use]
    pub const fn user(uid: u32) -> Self {
        Self(uid)
    }

    /// The address that stands for it.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        Address::ip_of_user(self.0)
    }

    /// The user at the other end of this socket.
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
