use std::sync::Arc;
use std::time::Duration;

use plimsoll::Clock;

use crate::batcher::Batcher;
use crate::breakers::Breakers;
use crate::circuit::Circuit;
use crate::error::StoreError;
use crate::group::GroupBatches;
use crate::health::Health;
use crate::key::Naming;
use crate::link::Link;
use crate::store::{Inner, Store};

/// The default deadline of a call.
const DEADLINE: Duration = Duration::from_millis(50);

impl Store {
    /// Opens the Redis at `url`, such as `redis://user:password@host:6379/0`, or `rediss://…` with the feature `tls`.
    ///
    /// The store connects on the first call.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).open()
    }

    /// Returns a builder for the Redis at `url`.
    pub fn builder(url: &str) -> StoreBuilder {
        StoreBuilder::to(Address::Single(url.to_owned()))
    }

    /// Returns a builder for the Redis Cluster with these seed nodes.
    ///
    /// All states of one key are on one node. Redirections of moved slots are followed; calls are never repeated for
    /// any other reason.
    #[cfg(feature = "cluster")]
    pub fn cluster<'a>(urls: impl IntoIterator<Item = &'a str>) -> StoreBuilder {
        let urls = urls.into_iter().map(str::to_owned).collect();
        StoreBuilder::to(Address::Cluster(urls))
    }
}

/// A builder of a [`Store`]. [`Store::builder`] and `Store::cluster` return one.
///
/// ```
/// use plimsoll_redis::Store;
/// use std::time::Duration;
///
/// let store = Store::builder("redis://127.0.0.1")
///     .namespace("shop")
///     .deadline(Duration::from_millis(20))
///     .open()?;
/// # let _ = store;
/// # Ok::<(), plimsoll_redis::StoreError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct StoreBuilder {
    address: Address,
    namespace: Vec<u8>,
    deadline: Duration,
    clock: Option<Clock>,
    circuit: Circuit,
    /// `None` selects digests with a secret derived from the namespace.
    naming: Option<Naming>,
}

#[derive(Clone)]
enum Address {
    Single(String),
    #[cfg(feature = "cluster")]
    Cluster(Vec<String>),
}

/// Hides the address, which may contain a password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Address")
    }
}

impl StoreBuilder {
    fn to(address: Address) -> Self {
        Self {
            address,
            namespace: b"plimsoll".to_vec(),
            deadline: DEADLINE,
            clock: None,
            circuit: Circuit::new(),
            naming: None,
        }
    }

    /// Sets the prefix of all keys. Default: `plimsoll`. Stores with different namespaces share no limits.
    pub fn namespace(mut self, namespace: impl AsRef<[u8]>) -> Self {
        self.namespace = namespace.as_ref().to_vec();
        self
    }

    /// Names keys by a digest with this secret, an HMAC-SHA-256 shortened to 128 bits. All processes that share limits need the same
    /// secret.
    ///
    /// By default the secret is derived from the namespace. This keeps API keys, addresses and tokens out of the store, its slow log and
    /// its dumps, but a reader who knows the namespace can test whether a given key is present. A secret of the fleet prevents
    /// that too.
    pub fn key_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.naming = Some(Naming::with_secret(secret.as_ref()));
        self
    }

    /// Names keys without a digest, so that they are readable in the store and in its slow log.
    pub fn raw_keys(mut self) -> Self {
        self.naming = Some(Naming::Raw);
        self
    }

    /// Sets the deadline of each call, including the time to connect. Default: 50 ms.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the circuit breaker. Default: [`Circuit::new`].
    /// It is shared by all limiters of the store.
    pub fn circuit(mut self, circuit: Circuit) -> Self {
        self.circuit = circuit;
        self
    }

    /// Uses this clock in place of the server's, for tests with a manual clock. Windows then begin when a limiter is built, keys expire an
    /// hour after they were written, and leases are not renewed.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Opens the store. It connects on the first call.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid.
    pub fn open(self) -> Result<Store, StoreError> {
        let health = Arc::new(Health::new(self.clock.clone()));
        // A manual clock does not advance during an outage, so no duration can be required.
        let circuit = match self.clock {
            Some(_) => self.circuit.min_outage(Duration::ZERO),
            None => self.circuit,
        };
        let (link, breakers) = match &self.address {
            Address::Single(url) => {
                let link = Link::single(url, Arc::clone(&health))?;
                (link, Breakers::one(circuit))
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(urls) => {
                let link = Link::cluster(urls, Arc::clone(&health))?;
                (link, Breakers::by_slot(circuit))
            }
        };
        let naming = self.naming;
        let naming = naming.unwrap_or_else(|| Naming::of_namespace(&self.namespace));
        Ok(Store::of(Inner {
            link: Arc::new(link),
            namespace: self.namespace,
            naming,
            deadline: self.deadline,
            clock: self.clock,
            breakers,
            health,
            groups: Batcher::new(GroupBatches),
        }))
    }
}
