use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use plimsoll::{Denied, InvalidLimit, Moment, Standing};

use crate::answer::{Answer, Decided, Refused};
use crate::batch::Demand;
use crate::event_reports::Subscribers;
use crate::key::Frame;
use crate::lease::{Lease, Leases};
use crate::rule::{self, RuleKind, number};
use crate::script::Script;
use crate::store::Store;
use crate::terms::Terms;
use crate::{Decision, RedisPermit, RedisRule, StoreError, StoreErrorKind};

/// A limit in Redis, with one state for each key. [`Store::limiter`] creates one.
///
/// A script makes each decision, so it is atomic and takes one round trip. It uses the time of the server. The state of a key
/// expires when it equals that of a new key.
///
/// There is no queue: a demand that cannot be granted now is refused, with the time at which to retry. Clones share one limiter.
///
/// ```no_run
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Decision, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// match api.decide("customer 42", 1).await? {
///     Decision::Granted(permit) => println!("{:?} left", permit.standing().remaining),
///     Decision::Denied(denied) => println!("retry after {:?}", denied.retry_after()),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Concurrent calls
///
/// A single call of [`decide`](Self::decide) is sent at once. Calls that are made while round trips of this limiter are in flight are
/// queued, and one script decides all of them, in order, with the same results as separate calls. Each call has its own
/// [deadline](crate::StoreBuilder::deadline). A call that is dropped before it was sent takes nothing.
#[derive(Clone)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    name: String,
    /// Builds the names of its keys.
    frame: Frame,
    kind: RuleKind,
    /// The script for all operations but decisions.
    script: Script,
    /// The moment from which windows and refills are counted.
    origin: Moment,
    terms: RwLock<Arc<Terms>>,
    /// The leases, by each length that the rule has had.
    leases: Mutex<Vec<Arc<Leases>>>,
    subscribers: Subscribers,
}

impl Store {
    /// Creates a limiter with this name. All processes that use the name in the same namespace share its states.
    ///
    /// Windows and refills are aligned to 1970, so that they begin at the same moments in all processes.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis cannot store the limit: a window of more than 1024 segments, a lease shorter than a
    /// millisecond, or an amount that is too large (see [`RedisRule`]).
    pub fn limiter(
        &self,
        name: &str,
        rule: impl Into<RedisRule>,
    ) -> Result<RedisLimiter, InvalidLimit> {
        RedisLimiter::new(self.clone(), name, rule.into())
    }
}

impl RedisLimiter {
    fn new(store: Store, name: &str, rule: RedisRule) -> Result<Self, InvalidLimit> {
        let origin = store.origin();
        let mut leases = Vec::new();
        let terms = Terms::new(&store, rule, origin, &mut leases)?;
        let inner = Inner {
            name: name.to_owned(),
            frame: Frame::new(store.namespace(), name.as_bytes(), terms.rule.kind()),
            kind: terms.rule.kind(),
            script: Script::asking(terms.rule.kind()),
            origin,
            terms: RwLock::new(Arc::new(terms)),
            leases: Mutex::new(leases),
            subscribers: Subscribers::default(),
            store,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Changes the rule of this limiter and its clones. Usage and held leases are kept.
    ///
    /// Other processes that use the name decide by their own rules until they are changed too, and every grant is charged to the rules of
    /// all. Decisions in flight are made by the old rule. Held leases keep their length.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    ///
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10))?;
    /// api.replace(TokenBucket::per_second(20))?;
    /// assert_eq!(api.limit(), 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Use [`Fleet::replace`](crate::Fleet::replace) to change the rule of a [`Fleet`](crate::Fleet).
    ///
    /// # Errors
    ///
    /// Returns an error if Redis cannot store the limit, or the rule is of another kind: kinds have different states,
    /// so the usage would be lost. Create a new limiter instead.
    pub fn replace(&self, rule: impl Into<RedisRule>) -> Result<(), InvalidLimit> {
        let (inner, rule) = (&*self.inner, rule.into());
        if rule.kind() != inner.kind {
            let word = format!("{:?}", rule.kind());
            return Err(InvalidLimit::new("rule", word, "one of the same kind"));
        }
        let mut leases = inner.leases();
        let terms = Terms::new(&inner.store, rule, inner.origin, &mut leases)?;
        let mut current = inner.terms.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(terms);
        Ok(())
    }

    /// Takes `cost` for `key`, or refuses. A cost of 0 takes nothing, and is granted if anything is available.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not decide. After [`TimedOut`](crate::StoreErrorKind::TimedOut) or
    /// [`Unreachable`](crate::StoreErrorKind::Unreachable) a rate may have been charged; a lease is released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before the call was sent takes nothing. After that, a rate may have been charged; a lease is
    /// released.
    pub async fn decide(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Decision, StoreError> {
        let reporter = self.reporter(key.as_ref());
        let (terms, key) = (self.terms(), self.key(key.as_ref()));
        let id = terms.new_id();
        let lease = match (&terms.leases, cost) {
            (Some(leases), 1..) => Some(Box::new(leases.ask(key.clone(), &id, cost))),
            _ => None,
        };
        let demand = Demand {
            key,
            cost,
            id,
            lease,
        };
        let (decided, lease) = self.send(&terms, demand).await?;
        Ok(match decided {
            Decided::Granted(standing, taken) => {
                let leases = lease.into_iter().map(|lease| lease.granted(fence(taken)));
                let permit = RedisPermit::new(cost, standing, leases.collect());
                let event =
                    reporter.and_then(|reporter| reporter.granted(standing, permit.is_leased()));
                Decision::Granted(permit.taken_at(taken).return_events(event))
            }
            Decided::Refused(refused) => {
                if let Some(lease) = lease {
                    lease.abandon();
                }
                let denied = refused.denied(terms.rule.limit(), self.name());
                if let Some(reporter) = reporter {
                    reporter.refused(&denied);
                }
                Decision::Denied(denied)
            }
        })
    }

    /// Sends a demand, in a batch with queued ones.
    pub(crate) async fn send(
        &self,
        terms: &Terms,
        demand: Demand,
    ) -> Result<(Decided, Option<Box<Lease>>), StoreError> {
        let store = self.store();
        let (slot, breaker) = (store.slot(&demand.key), store.breaker(Some(&demand.key)));
        let call = terms.batcher.decide(store, slot, demand);
        store.within_deadline(breaker, call).await
    }

    /// Returns what [`decide`](Self::decide) would decide. Takes nothing and writes no key.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not answer.
    pub async fn estimate(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
    ) -> Result<Result<Standing, Denied>, StoreError> {
        let key = self.key(key.as_ref());
        let mut answer = self.ask("peek", key, cost, String::new()).await?;
        let limit = self.limit();
        Ok(match answer.decided(limit)? {
            Decided::Granted(standing, _) => Ok(standing),
            Decided::Refused(refused) => Err(refused.denied(limit, &self.inner.name)),
        })
    }

    /// Takes the amount that is available for `key`, at most `most`. [`RedisPermit::cost`] is the amount taken.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not decide. If it took a lease nevertheless, the lease expires.
    pub async fn take_up_to(
        &self,
        key: impl AsRef<[u8]>,
        most: u64,
    ) -> Result<RedisPermit, StoreError> {
        let key = self.key(key.as_ref());
        let terms = self.terms();
        let id = terms.new_id();
        let leases = terms.leases.as_ref();
        let lease = leases.map(|leases| leases.ask(key.clone(), &id, most));
        let mut answer = self.ask("up_to", key, most, id).await?;
        let taken: u64 = answer.number()?;
        let standing = Standing::new(self.limit(), answer.number()?);
        let standing = standing.reset(answer.span()?);
        let moment = answer.moment()?;
        let lease = match (lease, taken) {
            (Some(lease), 0) => {
                lease.abandon();
                None
            }
            (lease, _) => lease.map(|lease| lease.granted_for(taken, fence(moment))),
        };
        Ok(RedisPermit::new(
            taken,
            standing,
            lease.into_iter().collect(),
        ))
    }

    /// Takes `cost` for `key` ahead of time, and returns the time that the caller has to wait before it may use the
    /// grant: zero if enough is available. Refuses if the wait would exceed `longest`; `None` accepts any wait.
    ///
    /// A token bucket goes into debt, and later demands are refused until it has refilled. A reservation cannot be
    /// cancelled, not even by dropping the future once the call was sent.
    ///
    /// ```no_run
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    /// use std::time::Duration;
    ///
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::open("redis://127.0.0.1")?;
    /// let mail = store.limiter("mail", TokenBucket::per_second(10))?;
    /// let wait = mail.reserve("customer 42", 1, Some(Duration::from_secs(2))).await??;
    /// tokio::time::sleep(wait).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not decide. Windows, logs and leases do not support reservations:
    /// [`Unsupported`](crate::StoreErrorKind::Unsupported).
    pub async fn reserve(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        longest: Option<Duration>,
    ) -> Result<Result<Duration, Denied>, StoreError> {
        if self.kind() != RuleKind::TokenBucket {
            return Err(StoreError::new(StoreErrorKind::Unsupported));
        }
        let key = self.key(key.as_ref());
        let longest = longest.map_or_else(String::new, |longest| number(longest.as_nanos()));
        let answer = self.ask("book", key, cost, longest).await?;
        let denied = |refused: Refused| refused.denied(self.limit(), &self.inner.name);
        Ok(answer.booked()?.map_err(denied))
    }

    /// Returns the name of the limiter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the maximum cost that can be granted at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.terms().rule.limit()
    }

    /// Returns whether its permits are leases, which are returned when they are dropped.
    #[must_use]
    pub fn holds_leases(&self) -> bool {
        self.kind() == RuleKind::Concurrency
    }

    /// Returns the number of leases whose release failed and is retried in the background, until they expire.
    #[must_use]
    pub fn unreturned_leases(&self) -> usize {
        let leases = self.inner.leases();
        leases.iter().map(|leases| leases.unreturned()).sum()
    }

    /// Returns the number of failed renewals of leases, and of leases whose first release failed.
    #[must_use]
    pub fn lease_failures(&self) -> u64 {
        let leases = self.inner.leases();
        leases.iter().map(|leases| leases.failures()).sum()
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.inner.subscribers
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn rule(&self) -> RedisRule {
        self.terms().rule.clone()
    }

    pub(crate) fn kind(&self) -> RuleKind {
        self.inner.kind
    }

    pub(crate) fn terms(&self) -> Arc<Terms> {
        let terms = &self.inner.terms;
        Arc::clone(&terms.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn key(&self, subject: &[u8]) -> Vec<u8> {
        self.inner.frame.key(self.inner.store.naming(), subject)
    }

    pub(crate) async fn ask(
        &self,
        what: &str,
        key: Vec<u8>,
        amount: u64,
        last: String,
    ) -> Result<Answer, StoreError> {
        let inner = &*self.inner;
        let (now, amount) = (inner.store.now(), rule::amount(amount).to_string());
        let terms = self.terms();
        let mut arguments = Vec::with_capacity(4 + terms.words.len());
        arguments.extend([what, &now, &amount]);
        arguments.extend(terms.words.iter().map(String::as_str));
        // The id of a lease, a number, a moment or nothing, because scripts ignore arguments that they do not use.
        arguments.push(&last);
        let answer = inner.store.run(&inner.script, &[key], &arguments).await?;
        inner.store.health().decided(1);
        Answer::new(answer)
    }
}

impl Inner {
    fn leases(&self) -> MutexGuard<'_, Vec<Arc<Leases>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fencing token of a lease is the microsecond at which it was granted.
pub(crate) fn fence(moment: Moment) -> u64 {
    moment.as_nanos() / 1000
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("name", &self.inner.name)
            .field("rule", &self.terms().rule)
            .finish_non_exhaustive()
    }
}
