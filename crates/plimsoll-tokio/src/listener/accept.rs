use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpStream};

/// A source of connections. Implemented for the [`TcpListener`] and, on Unix, the `UnixListener` of tokio; implement it
/// for others.
///
/// ```
/// use plimsoll_tokio::listener::Accept;
/// use std::io;
/// use std::net::{IpAddr, SocketAddr};
/// use std::task::{Context, Poll};
/// use tokio::net::{TcpListener, TcpStream};
///
/// /// A listener that sends small writes at once.
/// struct NoDelay(TcpListener);
///
/// impl Accept for NoDelay {
///     type Io = TcpStream;
///     type Addr = SocketAddr;
///
///     fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
///         let accepted = TcpListener::poll_accept(&self.0, cx);
///         accepted.map(|it| it.and_then(|(io, peer)| io.set_nodelay(true).map(|()| (io, peer))))
///     }
///
///     fn local_addr(&self) -> io::Result<SocketAddr> {
///         self.0.local_addr()
///     }
///
///     fn ip(_stream: &TcpStream, peer: &SocketAddr) -> IpAddr {
///         peer.ip()
///     }
/// }
/// ```
pub trait Accept: Send + 'static {
    /// The type of a connection.
    type Io: Send + 'static;

    /// The type of the address of a peer.
    type Addr: Send + 'static;

    /// Polls for the next connection and the address of its peer.
    ///
    /// # Errors
    ///
    /// Returns an error if accepting fails. The listener polls again after any error.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Io, Self::Addr)>>;

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not known.
    fn local_addr(&self) -> io::Result<Self::Addr>;

    /// Returns the address that a limit [per address](super::LimitedListener::per_address) counts the connection under.
    fn ip(io: &Self::Io, addr: &Self::Addr) -> IpAddr;
}

impl Accept for TcpListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        Self::poll_accept(self, cx)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }

    fn ip(_io: &TcpStream, addr: &SocketAddr) -> IpAddr {
        addr.ip()
    }
}

/// Connections through a Unix socket have no network address, and count under [that of their
/// user](plimsoll::Address::ip_of_user). Users that the operating system does not report count as one.
#[cfg(unix)]
impl Accept for tokio::net::UnixListener {
    type Io = tokio::net::UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Io, Self::Addr)>> {
        Self::poll_accept(self, cx)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Self::local_addr(self)
    }

    fn ip(io: &Self::Io, _addr: &Self::Addr) -> IpAddr {
        let uid = io.peer_cred().map_or(u32::MAX, |user| user.uid());
        plimsoll::Address::ip_of_user(uid)
    }
}
