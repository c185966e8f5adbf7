use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Clock, Moment};
use redis::{Cmd, ErrorKind, ServerErrorKind, ToRedisArgs, Value};

use crate::answer::Answer;
use crate::batcher::{Batcher, Transport};
use crate::breakers::Breakers;
use crate::circuit::Breaker;
use crate::group::{Group, GroupBatches};
use crate::health::{Health, StoreEvents, StoreStats};
use crate::key::Naming;
use crate::link::Link;
use crate::rule::moment;
use crate::script::Script;
use crate::{StoreError, StoreErrorKind};

/// A Redis server or cluster that stores limits.
///
/// A store connects on its first call, shares one connection among all callers, and reconnects when the connection breaks. A program
/// can start and run while the server is down: each call then returns an error. Clones share one store.
///
/// ```no_run
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Decision, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::builder("redis://127.0.0.1").namespace("shop").open()?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// match api.decide("customer 42", 1).await? {
///     Decision::Granted(permit) => println!("{:?} left", permit.standing().remaining),
///     Decision::Denied(denied) => println!("{denied}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Connections
///
/// A [deadline](crate::StoreBuilder::deadline) bounds each call, including the time to connect. After several failures the
/// [circuit](crate::Circuit) opens: calls then fail at once, until a probe succeeds. Each clone and each limiter of the store
/// uses the same connection and the same circuit. Calls need a Tokio runtime.
///
/// # Methods
///
/// - [`limiter`](Self::limiter) creates a limiter with a rule; [`all`](Self::all) combines several for one key.
/// - [`decide_all`](Self::decide_all), [`peek_all`](Self::peek_all) and [`charge_all`](Self::charge_all) decide about several
///   limiters and keys at once.
/// - [`stats`](Self::stats) and [`subscribe`](Self::subscribe) report the health of the store.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) link: Arc<Link>,
    pub(crate) namespace: Vec<u8>,
    pub(crate) naming: Naming,
    pub(crate) deadline: Duration,
    pub(crate) clock: Option<Clock>,
    pub(crate) breakers: Breakers,
    pub(crate) health: Arc<Health>,
    pub(crate) groups: Arc<Batcher<GroupBatches>>,
}

impl Store {
    pub(crate) fn of(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns whether calls are sent: `false` while the [circuit](crate::Circuit) is open. In a cluster, `false` if
    /// any of its circuits is open.
    ///
    /// ```
    /// use plimsoll_redis::Store;
    ///
    /// // Nothing has failed yet, because nothing was sent.
    /// let store = Store::open("redis://127.0.0.1")?;
    /// assert!(store.is_asked());
    /// # Ok::<(), plimsoll_redis::StoreError>(())
    /// ```
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.inner.breakers.would_ask(|| self.time())
    }

    /// Whether a call for this key would be sent.
    pub(crate) fn is_asked_for(&self, key: impl FnOnce() -> Vec<u8>) -> bool {
        let breaker = self.inner.breakers.of(|| Some(key()));
        breaker.would_ask(|| self.time())
    }

    /// Returns the number of times that the [circuit](crate::Circuit) opened.
    #[must_use]
    pub fn outages(&self) -> u64 {
        self.inner.breakers.opened()
    }

    /// Returns the statistics of this store: decisions, round trips and their latency, failures by cause, lost leases, connections,
    /// and whether the server may evict the state of limits.
    ///
    /// ```
    /// use plimsoll_redis::Store;
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let stats = store.stats();
    /// assert_eq!((stats.round_trips, stats.decisions), (0, 0));
    /// # Ok::<(), plimsoll_redis::StoreError>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.inner.health.stats(self.outages(), self.is_asked())
    }

    /// Subscribes to the events of this store. A slow subscriber loses the oldest events and never blocks callers. See
    /// [`StoreEvents`] for an example.
    #[must_use]
    pub fn subscribe(&self) -> StoreEvents {
        self.inner.health.subscribe()
    }

    /// Returns the number of states that were written by a clock far ahead of the server's: the clock has stepped back
    /// by more than the limit stores, or a failover changed the server. Everything used then counts as used now.
    #[must_use]
    pub fn clock_steps(&self) -> u64 {
        self.inner.health.steps()
    }

    /// The clock for decisions in this process.
    pub(crate) fn clock(&self) -> Clock {
        self.inner.clock.clone().unwrap_or_default()
    }

    /// The time of this process, or of the clock that the store was built with.
    pub(crate) fn time(&self) -> Moment {
        self.inner.health.now()
    }

    /// Sends a `PING` and waits for the reply, for instance to check the connection when a program starts.
    ///
    /// ```no_run
    /// use plimsoll_redis::Store;
    ///
    /// # async fn doc() -> Result<(), plimsoll_redis::StoreError> {
    /// let store = Store::open("redis://127.0.0.1")?;
    /// if let Err(error) = store.ping().await {
    ///     eprintln!("starting without Redis: {error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer within the deadline, or the circuit is open.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut command = Cmd::new();
        command.arg("PING");
        let call = self.inner.link.send(&command);
        self.within_deadline(self.breaker(None), call).await?;
        Ok(())
    }

    pub(crate) fn namespace(&self) -> &[u8] {
        &self.inner.namespace
    }

    pub(crate) fn naming(&self) -> &Naming {
        &self.inner.naming
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The moment to which the windows of a new limiter are aligned.
    pub(crate) fn origin(&self) -> Moment {
        let clock = self.inner.clock.as_ref();
        clock.map_or(Moment::ORIGIN, Clock::precise_now)
    }

    /// The time argument of scripts. If it is empty, they use the time of the server.
    pub(crate) fn now(&self) -> String {
        let clock = self.inner.clock.as_ref();
        clock.map_or_else(String::new, |clock| moment(clock.precise_now()))
    }

    /// Whether the time is that of the server, as opposed to a manual clock.
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
        let breaker = self.breaker(keys.first().map(Vec::as_slice));
        let call = self.evaluate(script, keys, |command| {
            command.arg(arguments);
        });
        self.within_deadline(breaker, call).await
    }

    /// Runs a script, without a deadline.
    pub(crate) async fn evaluate(
        &self,
        script: &Script,
        keys: &[impl ToRedisArgs],
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value, StoreError> {
        let command = |name: &str, script: &str| {
            // Enough capacity for most commands.
            let mut command = Cmd::with_capacity(16 + keys.len(), script.len() + 256);
            command.arg(name).arg(script).arg(keys.len()).arg(keys);
            arguments(&mut command);
            command
        };
        let link = &self.inner.link;
        let known = command("EVALSHA", script.hash());
        let mut answer = match link.send(&known).await {
            // A server that does not know the script has not run it. `EVAL` runs and caches it.
            Err(error) if is_unknown(&error) => {
                let unknown = command("EVAL", script.text());
                link.send(&unknown).await?
            }
            answer => answer?,
        };
        if let Value::Array(parts) = &mut answer
            && let Some(Value::BulkString(last)) = parts.last()
            && last == b"stepped"
        {
            parts.pop();
            self.inner.health.stepped();
        }
        match answer {
            Value::Array(_) | Value::Int(_) => Ok(answer),
            other => Err(StoreError::bad_reply(&other)),
        }
    }

    /// The statistics of this store.
    pub(crate) fn health(&self) -> &Health {
        &self.inner.health
    }

    /// Deletes a key.
    pub(crate) async fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let mut command = Cmd::new();
        command.arg("DEL").arg(key);
        let call = self.inner.link.send(&command);
        self.within_deadline(self.breaker(Some(key)), call).await?;
        Ok(())
    }

    /// The circuit for a key.
    pub(crate) fn breaker(&self, key: Option<&[u8]>) -> &Breaker {
        self.inner.breakers.of(|| key.map(<[u8]>::to_vec))
    }

    /// The hash slot of a key. A script may use the keys of one slot.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        self.inner.breakers.slot(key)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.inner.deadline
    }

    /// Decides about several limits whose keys are in one slot, within the deadline.
    pub(crate) async fn decide_group(&self, group: Group) -> Result<Answer, StoreError> {
        let first = group.keys.first().map(Vec::as_slice);
        let breaker = self.breaker(first);
        let slot = first.map_or(0, |key| self.slot(key));
        let call = self.inner.groups.decide(self, slot, group);
        self.within_deadline(breaker, call).await
    }

    /// Makes a call within the deadline, unless the circuit is open, and reports the result to the circuit.
    pub(crate) async fn within_deadline<T>(
        &self,
        breaker: &Breaker,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let health = &self.inner.health;
        let under_way = match breaker.begin(|| self.time()) {
            Ok(under_way) => under_way,
            Err(error) => {
                health.failed(&error);
                return Err(error);
            }
        };
        let answer = match tokio::time::timeout(self.inner.deadline, call).await {
            Ok(answer) => answer,
            Err(_) => {
                self.inner.link.unanswered();
                Err(StoreError::new(StoreErrorKind::TimedOut))
            }
        };
        if let Err(error) = &answer {
            health.failed(error);
        }
        match &answer {
            Err(error) if error.is_silence() => {
                let (opened, probed) = under_way.failed(self.time());
                if opened {
                    health.opened();
                }
                if probed {
                    // Only the connection may be dead, so the next probe reconnects.
                    self.inner.link.hang_up();
                }
            }
            _ => {
                if under_way.answered() {
                    health.closed();
                }
            }
        }
        answer
    }
}

impl Transport for Store {
    fn time(&self) -> Moment {
        Self::time(self)
    }

    fn deadline(&self) -> Duration {
        Self::deadline(self)
    }
}

fn is_unknown(error: &StoreError) -> bool {
    let source = error.redis();
    source.is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}
