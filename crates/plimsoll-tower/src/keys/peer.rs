//! The address of a connection.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use super::address::Prefixes;
use super::{Address, KeyFrom, Missing, UnixPeer};
use crate::Head;

/// The address of the peer, in the extensions of a request. The code that accepts connections inserts it.
///
/// ```
/// use plimsoll_tower::{Head, KeyFrom, keys::{Peer, PeerAddr}};
///
/// let peer = PeerAddr("192.0.2.1:40000".parse()?);
/// let request = http::Request::get("/").extension(peer).body(())?;
/// let key = Peer::new().key(&Head::of(&request));
/// assert_eq!(key.unwrap().to_string(), "192.0.2.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is a layer: `PeerAddr(address).layer(service)` inserts it into all requests of a connection, for servers that accept
/// connections themselves and serve them with hyper. With the feature `axum` it is connect info, of a `TcpListener` and of a
/// `plimsoll_tokio::LimitedListener`: `into_make_service_with_connect_info::<PeerAddr>()`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddr(pub SocketAddr);

#[cfg(feature = "axum")]
mod connected {
    use std::net::SocketAddr;

    use axum::extract::connect_info::Connected;
    use axum::serve::IncomingStream;
    use plimsoll_tokio::LimitedListener;
    use plimsoll_tokio::listener::Accept;
    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio::net::TcpListener;

    use super::PeerAddr;

    impl Connected<IncomingStream<'_, TcpListener>> for PeerAddr {
        fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
            Self(*stream.remote_addr())
        }
    }

    impl<A> Connected<IncomingStream<'_, LimitedListener<A>>> for PeerAddr
    where
        A: Accept<Io: AsyncRead + AsyncWrite + Unpin, Addr = SocketAddr>,
    {
        fn connect_info(stream: IncomingStream<'_, LimitedListener<A>>) -> Self {
            Self(*stream.remote_addr())
        }
    }
}

/// The key is the address of the connection, without its port.
///
/// The address is found in the extensions of the request: as a [`PeerAddr`], as a [`SocketAddr`], with the feature `axum` as
/// the `ConnectInfo` of `into_make_service_with_connect_info`, and with the feature `tonic` as tonic's server inserts it.
/// Connect info may be a `SocketAddr`, a [`PeerAddr`], or the `Peer` of a `plimsoll_tokio::LimitedListener`. A peer on a Unix
/// socket is identified by its user: see [`UnixPeer`]. A request without any of them is answered with 500.
///
/// Behind a proxy all connections come from the proxy: use [`Forwarded`](super::Forwarded) as the key there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    prefixes: Prefixes,
}

impl Peer {
    /// Takes the whole of an IPv4 address, and the first 64 bits of an IPv6 address.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            prefixes: Prefixes::DEFAULT,
        }
    }

    /// Sets the number of leading bits of an IPv4 address that form the key. Default: 32, the whole address.
    #[must_use]
    pub const fn ipv4_prefix(mut self, bits: u8) -> Self {
        self.prefixes.ipv4 = bits;
        self
    }

    /// Sets the number of leading bits of an IPv6 address that form the key. Default: 64.
    #[must_use]
    pub const fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.prefixes.ipv6 = bits;
        self
    }

    /// Returns the key of an address, for instance to set a limit for it.
    #[must_use]
    #[inline]
    pub fn address(&self, address: IpAddr) -> Address {
        self.prefixes.of(address)
    }
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyFrom for Peer {
    type Key = Address;

    // Always inlined: a key is fast to compute, and slow to pass on in memory.
    #[inline(always)]
    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, Address>> {
        // The address as it was recorded: a copy of it takes as long as the key.
        Some(Cow::Owned(match recorded(head) {
            Some(SocketAddr::V4(peer)) => self.address(IpAddr::V4(*peer.ip())),
            Some(SocketAddr::V6(peer)) => self.address(IpAddr::V6(*peer.ip())),
            None => self.address(peer_of_others(head)?),
        }))
    }

    fn missing(&self, _head: &Head<'_>) -> Missing {
        NO_PEER
    }
}

/// A server that does not record addresses.
#[cfg(feature = "axum")]
pub(super) const NO_PEER: Missing = Missing::InProgram(
    "requests do not have the address of their peer: serve the router with \
     `into_make_service_with_connect_info::<SocketAddr>()`, or insert a `PeerAddr` into the extensions of requests",
);

/// A server that does not record addresses, or records them in a form for which no feature is enabled.
#[cfg(not(feature = "axum"))]
pub(super) const NO_PEER: Missing = Missing::InProgram(
    "requests do not have the address of their peer: with axum, build plimsoll-tower with the feature `axum` and serve the router with \
     `into_make_service_with_connect_info::<SocketAddr>()`; elsewhere insert a `PeerAddr` into the extensions of requests",
);

/// The address of the connection; an IPv4-mapped address as an IPv4 address.
// Always inlined: an address is slow to pass on in memory, as a key is.
#[inline(always)]
#[must_use]
pub fn peer_of(head: &Head<'_>) -> Option<IpAddr> {
    match recorded(head) {
        Some(address) => Some(address.ip().to_canonical()),
        None => peer_of_others(head),
    }
}

/// The address as most servers record it.
#[inline(always)]
fn recorded<'r>(head: &Head<'r>) -> Option<&'r SocketAddr> {
    let known = head.extensions();
    match known.get() {
        Some(PeerAddr(address)) => Some(address),
        None => known.get().or_else(|| connect_info(head)),
    }
}

/// The same, as most servers with axum record it.
#[inline(always)]
fn connect_info<'r>(head: &Head<'r>) -> Option<&'r SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) = head.extensions().get() {
        return Some(address);
    }
    let _ = head;
    None
}

/// The same, where a framework has inserted it in another way.
#[inline(never)]
fn peer_of_others(head: &Head<'_>) -> Option<IpAddr> {
    match peer_of_framework(head) {
        Some(address) => Some(address.ip().to_canonical()),
        None => user_of(head).map(UnixPeer::address),
    }
}

#[cfg_attr(
    not(any(feature = "axum", feature = "tonic")),
    expect(unused_variables, reason = "no framework is known")
)]
fn peer_of_framework(head: &Head<'_>) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    {
        use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
        use plimsoll_tokio::listener;
        let known = head.extensions();
        if let Some(ConnectInfo(PeerAddr(address))) = known.get() {
            return Some(*address);
        }
        if let Some(ConnectInfo(listener::Peer(address))) = known.get() {
            return Some(*address);
        }
        if let Some(MockConnectInfo(address)) = known.get() {
            return Some(*address);
        }
    }
    #[cfg(feature = "tonic")]
    {
        use tonic::transport::server::TcpConnectInfo;
        // Also with TLS: tonic keeps the info of the inner connection as well.
        if let Some(connection) = head.extensions().get::<TcpConnectInfo>() {
            return connection.remote_addr();
        }
    }
    None
}

/// The user at the other end of a Unix socket.
fn user_of(head: &Head<'_>) -> Option<UnixPeer> {
    let known = head.extensions();
    if let Some(user) = known.get() {
        return Some(*user);
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(user)) = known.get() {
        return Some(*user);
    }
    #[cfg(all(feature = "tonic", unix))]
    if let Some(connection) = known.get::<tonic::transport::server::UdsConnectInfo>() {
        let credentials = connection.peer_cred.as_ref();
        return Some(credentials.map_or(UnixPeer::UNKNOWN, |user| UnixPeer::user(user.uid())));
    }
    None
}
