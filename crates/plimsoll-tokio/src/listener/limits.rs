use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use plimsoll::{Address, Demand, Denied, PerKey, Permit};
use plimsoll_kinds::Resource;

use crate::throttled::{Budget, Throttled};
use crate::with_permit::UnusedPermit;
use plimsoll_kinds::RetryingAcquire;

/// The treatment of connections at the total limit.
///
/// ```no_run
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tokio::LimitedListener;
/// use plimsoll_tokio::listener::WhenFull;
/// use tokio::net::TcpListener;
///
/// # async fn serve() -> std::io::Result<()> {
/// // Behind a load balancer: a client that is refused tries another server.
/// let listener = LimitedListener::new(TcpListener::bind("0.0.0.0:80").await?)
///     .total(Gate::new(Concurrency::new(1000)))
///     .when_full(WhenFull::Refuse);
/// # let _ = listener;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum WhenFull {
    /// They wait in the backlog of the operating system.
    #[default]
    Wait,
    /// They are accepted and closed at once.
    Refuse,
}

/// The limits of a listener.
pub(super) struct Limits {
    pub(super) total: Option<Resource>,
    pub(super) when_full: WhenFull,
    pub(super) per_address: Option<Arc<dyn PerKey<Address>>>,
    pub(super) ipv6_prefix: u8,
    pub(super) bytes: Bytes,
}

/// The byte budgets of connections.
#[derive(Default)]
pub(super) struct Bytes {
    pub(super) each_reads: Option<MakeBudget>,
    pub(super) each_writes: Option<MakeBudget>,
    pub(super) reads: Option<Budget>,
    pub(super) writes: Option<Budget>,
}

pub(super) type MakeBudget = Box<dyn Fn() -> Budget + Send + Sync>;

impl Bytes {
    /// The connection within its budgets. Its own comes first, because it is narrower.
    pub(super) fn of<T>(&self, io: T) -> Throttled<T> {
        let mut io = Throttled::new(io);
        for budget in [
            self.each_reads.as_ref().map(|make| make()),
            self.reads.clone(),
        ] {
            io = budget.iter().fold(io, Throttled::reads);
        }
        for budget in [
            self.each_writes.as_ref().map(|make| make()),
            self.writes.clone(),
        ] {
            io = budget.iter().fold(io, Throttled::writes);
        }
        io
    }
}

impl Limits {
    /// A permit for a connection that has not arrived yet.
    pub(super) async fn wait_in_total(&self) -> Result<Option<UnusedPermit>, Denied> {
        match &self.total {
            Some(total) if self.when_full == WhenFull::Wait => {
                let permit = RetryingAcquire::new(total.clone(), Demand::ONE).await?;
                Ok(Some(UnusedPermit::new(permit)))
            }
            _ => Ok(None),
        }
    }

    /// A permit for a connection that has arrived.
    pub(super) async fn ask_in_total(&self) -> Result<Option<UnusedPermit>, Denied> {
        match &self.total {
            Some(total) => {
                let permit = total.acquire_owned(Demand::ONE.at_once()).await?;
                Ok(Some(UnusedPermit::new(permit)))
            }
            None => Ok(None),
        }
    }

    /// A permit for a connection of one address.
    pub(super) async fn ask_for(&self, address: IpAddr) -> Result<Option<Permit<'static>>, Denied> {
        match &self.per_address {
            Some(limits) => {
                let key = Address::network(address, 32, self.ipv6_prefix);
                let permit = limits.acquire_owned(&key, Demand::ONE.at_once()).await?;
                Ok(Some(permit))
            }
            None => Ok(None),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: None,
            when_full: WhenFull::default(),
            per_address: None,
            ipv6_prefix: 64,
            bytes: Bytes::default(),
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("total", &self.total)
            .field("when_full", &self.when_full)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .finish_non_exhaustive()
    }
}
