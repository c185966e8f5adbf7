use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Clock, InvalidLimit, Moment};
use redis::{Cmd, ErrorKind, ServerErrorKind, ToRedisArgs, Value};

use crate::circuit::{Breaker, Circuit};
use crate::link::Link;
use crate::rule::moment;
use crate::script::Script;
use crate::{RedisAll, RedisLimiter, RedisRule, StoreError, StoreErrorKind};

/// A Redis that keeps limits.
///
/// It connects when it is first asked, shares one connection among all who ask, and connects again when that breaks; a
/// program starts and runs without its store, and every call says by itself if there is none. Clones are the
/// same store.
///
/// ```no_run
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Decision, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::builder("redis://127.0.0.1").namespace("shop").open()?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// match api.decide("customer 42", 1).await? {
///     Decision::Granted(permit) => println!("{} left", permit.standing().remaining()),
///     Decision::Denied(denied) => println!("{denied}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Arc<Link>,
    namespace: Vec<u8>,
    deadline: Duration,
    clock: Option<Clock>,
    breaker: Breaker,
    steps: AtomicU64,
}

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

    /// A limiter of this name. All processes that use the name in the same namespace share what it keeps, one state
    /// for each key.
    ///
    /// Windows and refills are counted from 1970 on, so that all agree where they begin.
    ///
    /// # Errors
    ///
    /// If the limit cannot be kept in Redis: a window of more than 1024 segments, a lease shorter than a
    /// millisecond.
    pub fn limiter(
        &self,
        name: &str,
        rule: impl Into<RedisRule>,
    ) -> Result<RedisLimiter, InvalidLimit> {
        RedisLimiter::new(self.clone(), name, rule.into())
    }

    /// Several limiters that must all grant: see [`RedisAll`].
    ///
    /// # Errors
    ///
    /// If there are none, one is there twice, or one belongs to another store.
    pub fn all(
        &self,
        limiters: impl IntoIterator<Item = RedisLimiter>,
    ) -> Result<RedisAll, InvalidLimit> {
        RedisAll::new(self.clone(), limiters.into_iter().collect())
    }

    /// Whether a call made now would be sent: `false` while the [circuit](Circuit) is open.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.inner.breaker.would_ask(|| self.time())
    }

    /// How often the [circuit](Circuit) opened.
    #[must_use]
    pub fn outages(&self) -> u64 {
        self.inner.breaker.opened()
    }

    /// How often something was found in the store that was written by a clock far ahead of the server's: it has stepped back
    /// by more than the limit remembers, or another server took over. Then what was used counts as used now.
    #[must_use]
    pub fn clock_steps(&self) -> u64 {
        self.inner.steps.load(Ordering::Relaxed)
    }

    /// The clock for what is decided here, and not by the store.
    pub(crate) fn clock(&self) -> Clock {
        self.inner.clock.clone().unwrap_or_default()
    }

    fn time(&self) -> Moment {
        let clock = self.inner.clock.as_ref();
        clock.map_or_else(|| Clock::system().precise_now(), Clock::precise_now)
    }

    /// Whether the store answers.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut command = Cmd::new();
        command.arg("PING");
        self.within_deadline(self.inner.link.send(&command)).await?;
        Ok(())
    }

    pub(crate) fn namespace(&self) -> &[u8] {
        &self.inner.namespace
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Where the windows of a limiter begin that is built now.
    pub(crate) fn origin(&self) -> Moment {
        let clock = self.inner.clock.as_ref();
        clock.map_or(Moment::ORIGIN, Clock::precise_now)
    }

    /// The time as scripts read it: nothing, and they ask the server.
    pub(crate) fn now(&self) -> String {
        let clock = self.inner.clock.as_ref();
        clock.map_or_else(String::new, |clock| moment(clock.precise_now()))
    }

    /// Whether time passes by itself.
    pub(crate) fn is_live(&self) -> bool {
        self.inner.clock.is_none()
    }

    /// Runs a script, within the deadline.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[impl ToRedisArgs + Sync],
    ) -> Result<Value, StoreError> {
        let call = async {
            let command = |name: &str, script: &str| {
                // Room for most, so that it need not grow.
                let parts = 3 + keys.len() + arguments.len();
                let mut command = Cmd::with_capacity(parts, script.len() + 256);
                command.arg(name).arg(script).arg(keys.len());
                command.arg(keys).arg(arguments);
                command
            };
            match self
                .inner
                .link
                .send(&command("EVALSHA", script.hash()))
                .await
            {
                // A server that does not know the script has not run it. This one also makes it known.
                Err(error) if is_unknown(&error) => {
                    self.inner.link.send(&command("EVAL", script.text())).await
                }
                answer => answer,
            }
        };
        let mut answer = self.within_deadline(call).await?;
        if let Value::Array(parts) = &mut answer
            && let Some(Value::BulkString(last)) = parts.last()
            && last == b"stepped"
        {
            parts.pop();
            self.inner.steps.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer)
    }

    /// Forgets a key.
    pub(crate) async fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let mut command = Cmd::new();
        command.arg("DEL").arg(key);
        self.within_deadline(self.inner.link.send(&command)).await?;
        Ok(())
    }

    async fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let under_way = self.inner.breaker.begin(|| self.time())?;
        let answer = match tokio::time::timeout(self.inner.deadline, call).await {
            Ok(answer) => answer,
            Err(_) => {
                self.inner.link.unanswered();
                Err(StoreError::new(StoreErrorKind::TimedOut))
            }
        };
        match &answer {
            Err(error) if error.is_silence() => {
                if under_way.failed(self.time()) {
                    // Perhaps only the connection is dead: the next who tries makes a new one.
                    self.inner.link.hang_up();
                }
            }
            _ => under_way.answered(),
        }
        answer
    }
}

fn is_unknown(error: &StoreError) -> bool {
    let source = error.redis();
    source.is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}

/// Options of a [`Store`].
#[derive(Clone, Debug)]
#[must_use]
pub struct StoreBuilder {
    address: Address,
    namespace: Vec<u8>,
    deadline: Duration,
    clock: Option<Clock>,
    circuit: Circuit,
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
        }
    }

    /// What all keys begin with; `plimsoll` unless said otherwise. Stores with different namespaces share nothing.
    pub fn namespace(mut self, namespace: impl AsRef<[u8]>) -> Self {
        self.namespace = namespace.as_ref().to_vec();
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
        let link = match &self.address {
            Address::Single(url) => Link::single(url)?,
            #[cfg(feature = "cluster")]
            Address::Cluster(urls) => Link::cluster(urls)?,
        };
        let inner = Inner {
            link: Arc::new(link),
            namespace: self.namespace,
            deadline: self.deadline,
            clock: self.clock,
            breaker: Breaker::new(self.circuit),
            steps: AtomicU64::new(0),
        };
        Ok(Store {
            inner: Arc::new(inner),
        })
    }
}
