//! An accept loop that limits connections, in total and by address.
//!
//! A connection holds its permits until the [`Connection`] is dropped.
//!
//! # In total
//!
//! At the total limit the listener either [waits](WhenFull::Wait) before it accepts the next connection, so that clients wait
//! in the backlog of the operating system, or [refuses](WhenFull::Refuse): it accepts connections and closes them at
//! once, so that clients can try another server. A listener that waits for a connection already holds the permit for it.
//!
//! # In bytes
//!
//! Connections read and write within [byte budgets](Budget), one for [all](LimitedListener::reads) or one for
//! [each](LimitedListener::each_reads), if the listener has any. See [`Throttled`](crate::Throttled) for how they are
//! shared.
//!
//! # By address
//!
//! A connection over the limit of its address is always closed: waiting for one address would make all others wait. Ports
//! do not count, IPv4-mapped IPv6 addresses are IPv4 addresses, and IPv6 addresses with a common
//! [prefix](LimitedListener::ipv6_prefix) count as one, because one client has many. Through a Unix socket each user
//! counts as an address.

mod accept;
#[cfg(feature = "axum")]
mod axum;
mod connection;
mod counts;
mod limits;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Address, Clock, Denied, PerKey, Reason};
use plimsoll_kinds::Resource;
use tokio::net::TcpListener;

use self::limits::Limits;
use crate::throttled::Budget;
use crate::with_permit::UnusedPermit;

#[cfg(feature = "axum")]
pub use self::axum::Peer;
pub use accept::Accept;
pub use connection::{Admission, Connection};
pub use counts::ConnectionCounts;
pub use limits::WhenFull;

/// The pause after an error that does not concern a single connection.
const PAUSE: Duration = Duration::from_secs(1);

/// A listener that accepts connections within its limits.
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
/// A `UnixListener` can be limited in the same way; with the feature `axum` both are listeners of `axum::serve`.
pub struct LimitedListener<A = TcpListener> {
    accept: A,
    limits: Limits,
    clock: Clock,
    counts: ConnectionCounts,
}

impl<A: Accept> LimitedListener<A> {
    /// Wraps `accept`, without limits yet.
    pub fn new(accept: A) -> Self {
        Self {
            accept,
            limits: Limits::default(),
            clock: Clock::system(),
            counts: ConnectionCounts::default(),
        }
    }

    /// Limits the connections of all addresses together: the number of open connections, or of new ones per second.
    ///
    /// If the listener waits, the limiter should have a queue: without one, the listener has to poll it.
    #[must_use]
    pub fn total(mut self, limiter: impl Into<Resource>) -> Self {
        self.limits.total = Some(limiter.into());
        self
    }

    /// Sets the treatment of connections at the total limit. Default: [`Wait`](WhenFull::Wait).
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.limits.when_full = when_full;
        self
    }

    /// Limits the bytes that all connections read, together.
    ///
    /// ```
    /// use plimsoll_tokio::{Budget, LimitedListener};
    /// use tokio::net::TcpListener;
    ///
    /// # async fn serve() -> std::io::Result<()> {
    /// // 10 MB a second in and out of each connection, and 100 MB a second of uploads in all.
    /// let listener = LimitedListener::new(TcpListener::bind("0.0.0.0:80").await?)
    ///     .each_reads(|| Budget::per_second(10_000_000))
    ///     .each_writes(|| Budget::per_second(10_000_000))
    ///     .reads(Budget::per_second(100_000_000));
    /// # let _ = listener;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn reads(mut self, budget: Budget) -> Self {
        self.limits.bytes.reads = Some(budget);
        self
    }

    /// Limits the bytes that all connections write, together.
    #[must_use]
    pub fn writes(mut self, budget: Budget) -> Self {
        self.limits.bytes.writes = Some(budget);
        self
    }

    /// Limits the bytes that each connection reads. `budget` is called for each connection.
    #[must_use]
    pub fn each_reads(mut self, budget: impl Fn() -> Budget + Send + Sync + 'static) -> Self {
        self.limits.bytes.each_reads = Some(Box::new(budget));
        self
    }

    /// Limits the bytes that each connection writes. `budget` is called for each connection.
    #[must_use]
    pub fn each_writes(mut self, budget: impl Fn() -> Budget + Send + Sync + 'static) -> Self {
        self.limits.bytes.each_writes = Some(Box::new(budget));
        self
    }

    /// Limits the connections of each address. A connection over the limit is closed at once.
    #[must_use]
    pub fn per_address(mut self, limits: impl PerKey<Address> + 'static) -> Self {
        self.limits.per_address = Some(Arc::new(limits));
        self
    }

    /// Sets the number of leading bits by which IPv6 addresses count as one. Default: 64, the usual prefix of a
    /// subscriber.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.limits.ipv6_prefix = bits;
        self
    }

    /// Sets the clock for pauses after errors. Default: [`Clock::system`].
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns counters of accepted and refused connections, which stay valid after the listener was moved into a
    /// server.
    #[must_use]
    pub fn counts(&self) -> ConnectionCounts {
        self.counts.clone()
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system does not report it.
    pub fn local_addr(&self) -> io::Result<A::Addr> {
        self.accept.local_addr()
    }

    /// Accepts the next connection that its limits admit.
    ///
    /// Errors of single connections are ignored. After other errors, such as too many open files, it pauses for a
    /// second and tries again. Cancel safe: dropping the future loses no permit.
    ///
    /// # Errors
    ///
    /// Returns an error if the total limiter was closed.
    pub async fn accept(&mut self) -> Result<(Connection<A::Io>, A::Addr), Denied> {
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
            let Ok(address) = self.limits.ask_for(A::ip(&io, &peer)).await else {
                self.counts.refuse_by_address();
                // Reused for the next connection, if the listener waits.
                waited = total.filter(|_| self.limits.when_full == WhenFull::Wait);
                continue;
            };
            self.counts.accept();
            let admission = Admission::new(total.and_then(UnusedPermit::take), address);
            let io = self.limits.bytes.of(io);
            return Ok((Connection::new(io, admission), peer));
        }
    }

    /// The next connection of any address.
    async fn next(&mut self) -> (A::Io, A::Addr) {
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

/// Whether an error concerns one connection only.
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
