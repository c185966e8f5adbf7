use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpStream};

/// Where connections come from. Tokio's [`TcpListener`] is one; yours may be another.
pub trait Accept: Send + 'static {
    /// What a connection is.
    type Io: Send + 'static;

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    ///
    /// If there is none. It is asked again after any error.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Io, SocketAddr)>>;

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// If that is not known.
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
