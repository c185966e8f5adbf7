use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of connections that a listener has accepted and refused. Clones share the counters.
///
/// ```
/// use plimsoll::{Address, Concurrency, Keyed};
/// use plimsoll_tokio::LimitedListener;
/// use tokio::net::{TcpListener, TcpStream};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let per_address: Keyed<Address, _> = Keyed::new(Concurrency::new(1));
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut listener = LimitedListener::new(listener).per_address(per_address);
/// let (counts, address) = (listener.counts(), listener.local_addr()?);
///
/// let _client = TcpStream::connect(address).await?;
/// let _connection = listener.accept().await?;
/// assert_eq!((counts.accepted(), counts.refused_by_address()), (1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct ConnectionCounts(Arc<Cells>);

#[derive(Default)]
struct Cells {
    accepted: AtomicU64,
    in_total: AtomicU64,
    by_address: AtomicU64,
}

impl ConnectionCounts {
    /// Returns the number of accepted connections.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were closed at the total limit.
    #[must_use]
    pub fn refused_in_total(&self) -> u64 {
        self.0.in_total.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were closed at the limit of their address.
    #[must_use]
    pub fn refused_by_address(&self) -> u64 {
        self.0.by_address.load(Ordering::Relaxed)
    }

    pub(super) fn accept(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse_in_total(&self) {
        self.0.in_total.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse_by_address(&self) {
        self.0.by_address.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for ConnectionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionCounts")
            .field("accepted", &self.accepted())
            .field("refused_in_total", &self.refused_in_total())
            .field("refused_by_address", &self.refused_by_address())
            .finish()
    }
}
