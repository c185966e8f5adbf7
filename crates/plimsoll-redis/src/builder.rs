use std::sync::Arc;
use std::time::Duration;

use plimsoll::Clock;

use crate::circuit::Circuit;
use crate::error::StoreError;
use crate::group::Groups;
use crate::health::Health;
use crate::key::Naming;
use crate::lanes::Batcher;
use crate::link::Link;
use crate::nodes::Breakers;
use crate::store::{Inner, Store};

/// How long a call may take unless somebody says otherwise.
const DEADLINE: Duration = Duration::from_millis(50);

impl Store {
    /// The Redis at `url`, such as `redis://user:password@host:6379/0`, or `rediss://…` with the feature `tls`.
    ///
    /// Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// If the address cannot be understood.
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).open()
    }

    /// The Redis at `url`, with options.
    pub fn builder(url: &str) -> StoreBuilder {
        StoreBuilder::to(Address::Single(url.to_owned()))
    }

    /// The Redis Cluster of which some nodes are at `urls`, with options.
    ///
    /// Every subject lies on one node. A slot that moves is followed; nothing else is ever sent twice.
    #[cfg(feature = "cluster")]
    pub fn cluster<'a>(urls: impl IntoIterator<Item = &'a str>) -> StoreBuilder {
        let urls = urls.into_iter().map(str::to_owned).collect();
        StoreBuilder::to(Address::Cluster(urls))
    }
}

/// Options of a [`Store`], made by [`Store::builder`] and `Store::cluster`.
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
    /// `None` is by a digest with what all who use the namespace know.
    naming: Option<Naming>,
}

#[derive(Clone)]
enum Address {
    Single(String),
    #[cfg(feature = "cluster")]
    Cluster(Vec<String>),
}

/// Without the address itself: there may be a password in it.
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

    /// What all keys begin with; `plimsoll` unless said otherwise. Stores with different namespaces share nothing.
    pub fn namespace(mut self, namespace: impl AsRef<[u8]>) -> Self {
        self.namespace = namespace.as_ref().to_vec();
        self
    }

    /// Names keys by a digest with this secret, an HMAC-SHA-256 shortened to 128 bits. All processes that share limits must
    /// have the same.
    ///
    /// Unless said otherwise keys are digested with a secret that is derived from the namespace. That keeps API keys, addresses
    /// and tokens out of the store, its slow log and its dumps, but everybody who knows the namespace can try whether a key
    /// is there. Who has a secret of the fleet keeps that from them too.
    pub fn key_secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.naming = Some(Naming::with_secret(secret.as_ref()));
        self
    }

    /// Names keys as they are, so that people can read them in the store, and in its slow log.
    pub fn raw_keys(mut self) -> Self {
        self.naming = Some(Naming::Raw);
        self
    }

    /// How long a call may take, connecting included; 50 ms unless said otherwise.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// When a store that does not answer is left alone, and when it is tried again.
    pub fn circuit(mut self, circuit: Circuit) -> Self {
        self.circuit = circuit;
        self
    }

    /// Goes by this clock instead of the server's, and counts windows from when a limiter is built: for tests, in
    /// which time does not pass by itself. Keys then expire an hour after they were written, and leases are not renewed.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The store. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// If the address cannot be understood.
    pub fn open(self) -> Result<Store, StoreError> {
        let health = Arc::new(Health::new(self.clock.clone()));
        // Time that does not pass by itself cannot be waited for.
        let circuit = match self.clock {
            Some(_) => self.circuit.lasting(Duration::ZERO),
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
            groups: Batcher::new(Groups),
        }))
    }
}
