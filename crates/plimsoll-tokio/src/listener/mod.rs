//! An accept loop with limits: on connections in total, and on those of one address.
//!
//! A connection holds its permits for as long as it lives: they are given back when the [`Connection`] is
//! dropped, by whoever has it then.
//!
//! # In total
//!
//! When there are as many connections as there may be, the listener [waits](WhenFull::Wait) before it accepts the next, and
//! clients wait in the backlog of the operating system; or it [refuses](WhenFull::Refuse), that is, it accepts
//! connections and closes them at once, so that clients know and go elsewhere. A listener that waits for a connection
//! has already taken the permit for it.
//!
//! # By address
//!
//! Who has as many connections as one address may have is refused, always. To wait for one address would be to
//! let it keep everybody else waiting. Ports do not count, IPv4 addresses that come through an IPv6 socket are
//! the IPv4 addresses, and IPv6 addresses with a common [prefix](LimitedListener::ipv6_prefix) are one, because one
//! client has many.

mod accept;
#[cfg(feature = "axum")]
mod axum;
mod connection;
mod counts;
mod limits;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::kinds::Resource;
use plimsoll::{Address, Clock, Denied, PerKey, Reason};
use tokio::net::TcpListener;

use self::limits::Limits;
use crate::held::Unused;

#[cfg(feature = "axum")]
pub use self::axum::Peer;
pub use accept::Accept;
pub use connection::{Admission, Connection};
pub use counts::Counts;
pub use limits::WhenFull;

/// How long to wait after an error that has nothing to do with a single connection.
const PAUSE: Duration = Duration::from_secs(1);

/// A listener that accepts as many connections as its limits allow.
///
/// ```no_run
/// use plimsoll::{Address, Concurrency, Gate, Keyed, Queue};
/// use plimsoll_tokio::LimitedListener;
/// use tokio::net::TcpListener;
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let total = Gate::builder(Concurrency::new(10_000)).queue(Queue::fifo(1)).build();
/// let per_address: Keyed<Address, _> = Keyed::new(Concurrency::new(100));
/// let mut listener = LimitedListener::new(TcpListener::bind("0.0.0.0:80").await?)
///     .total(total)
///     .per_address(per_address);
/// loop {
///     let (connection, peer) = listener.accept().await?;
///     tokio::spawn(async move {
///         // The connection counts until it is dropped.
///         println!("{peer}: {:?}", connection.get_ref());
///     });
/// }
/// # }
/// ```
///
/// With the feature `axum` it is a listener of `axum::serve`.
pub struct LimitedListener<A = TcpListener> {
    accept: A,
    limits: Limits,
    clock: Clock,
    counts: Counts,
}

impl<A: Accept> LimitedListener<A> {
    /// A listener without limits yet.
    pub fn new(accept: A) -> Self {
        Self {
            accept,
            limits: Limits::default(),
            clock: Clock::system(),
            counts: Counts::default(),
        }
    }

    /// Limits connections of all addresses together: how many there are at a time, or how many come in a second.
    ///
    /// Give it a queue if the listener is to wait: without one it looks again now and then.
    #[must_use]
    pub fn total(mut self, limiter: impl Into<Resource>) -> Self {
        self.limits.total = Some(limiter.into());
        self
    }

    /// Says what becomes of connections when there are too many in total. They wait unless told otherwise.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.limits.when_full = when_full;
        self
    }

    /// Limits the connections of each address.
    #[must_use]
    pub fn per_address(mut self, limits: impl PerKey<Address> + 'static) -> Self {
        self.limits.per_address = Some(Arc::new(limits));
        self
    }

    /// Takes IPv6 addresses that begin with the same `bits` for one. 64 unless set, which is what a
    /// subscriber usually has.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.limits.ipv6_prefix = bits;
        self
    }

    /// The clock by which it pauses after errors. The system's unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// What it has accepted and refused. It goes on counting when the listener is handed to a server.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// If the operating system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.accept.local_addr()
    }

    /// Waits for the next connection that may be served.
    ///
    /// Errors of single connections are passed over. After other errors, such as too many open files, it pauses for a
    /// second and tries again. When the future is dropped, no permit is lost.
    ///
    /// # Errors
    ///
    /// If the limiter in total was closed, so that nobody is let in any more.
    pub async fn accept(&mut self) -> Result<(Connection<A::Io>, SocketAddr), Denied> {
        let mut waited = None;
        loop {
            if waited.is_none() {
                waited = self.limits.wait_in_total().await?;
            }
            let (io, peer) = self.next().await;
            let total = match waited.take() {
                Some(permit) => Some(permit),
                None => match self.limits.ask_in_total().await {
                    Ok(permit) => permit,
                    Err(denied) if denied.reason() == Reason::Closed => return Err(denied),
                    Err(_) => {
                        self.counts.refuse_in_total();
                        continue;
                    }
                },
            };
            let Ok(address) = self.limits.ask_for(peer.ip()).await else {
                self.counts.refuse_by_address();
                // Good for the next one, if that is waited for.
                waited = total.filter(|_| self.limits.when_full == WhenFull::Wait);
                continue;
            };
            self.counts.accept();
            let admission = Admission::new(total.and_then(Unused::take), address);
            return Ok((Connection::new(io, admission), peer));
        }
    }

    /// The next connection, whoever it is from.
    async fn next(&mut self) -> (A::Io, SocketAddr) {
        loop {
            match poll_fn(|cx| self.accept.poll_accept(cx)).await {
                Ok(accepted) => return accepted,
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => {
                    let until = self.clock.precise_now().plus(PAUSE);
                    self.clock.sleep_until(until).await;
                }
            }
        }
    }
}

/// Whether an error says something about one connection, and nothing about the next.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

impl<A: fmt::Debug> fmt::Debug for LimitedListener<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedListener")
            .field("accept", &self.accept)
            .field("limits", &self.limits)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}
