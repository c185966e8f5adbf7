use std::future::pending;
use std::io;
use std::net::SocketAddr;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Accept, Connection, LimitedListener};

/// If its total limiter is closed, the listener accepts no more connections, and waits for the shutdown.
impl<A> Listener for LimitedListener<A>
where
    A: Accept<Io: AsyncRead + AsyncWrite + Unpin>,
{
    type Io = Connection<A::Io>;
    type Addr = A::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match Self::accept(self).await {
            Ok(accepted) => accepted,
            Err(_) => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<A::Addr> {
        Self::local_addr(self)
    }
}

/// The peer of a request, for handlers behind a [`LimitedListener`]: axum provides the `SocketAddr` of its own listeners only.
/// Limits by address of `plimsoll-tower` use it too.
///
/// ```
/// use axum::Router;
/// use axum::extract::ConnectInfo;
/// use axum::routing::get;
/// use plimsoll_tokio::listener::Peer;
///
/// let app: Router = Router::new()
///     .route("/", get(|ConnectInfo(Peer(address)): ConnectInfo<Peer>| async move { address.to_string() }));
/// let service = app.into_make_service_with_connect_info::<Peer>();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Peer(pub SocketAddr);

impl<A> Connected<IncomingStream<'_, LimitedListener<A>>> for Peer
where
    A: Accept<Io: AsyncRead + AsyncWrite + Unpin, Addr = SocketAddr>,
{
    fn connect_info(stream: IncomingStream<'_, LimitedListener<A>>) -> Self {
        Self(*stream.remote_addr())
    }
}
