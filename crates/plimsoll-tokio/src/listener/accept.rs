use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpStream};

/// A source of connections. Implemented for the [`TcpListener`] of tokio; implement it for others.
pub trait Accept: Send + 'static {
    /// The type of a connection.
    type Io: Send + 'static;

    /// Polls for the next connection and the address of its peer.
    ///
    /// # Errors
    ///
    /// If accepting fails. The listener polls again after any error.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Io, SocketAddr)>>;

    /// The local address.
    ///
    /// # Errors
    ///
    /// If it is not known.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl Accept for TcpListener {
    type Io = TcpStream;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        Self::poll_accept(self, cx)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}
