use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use plimsoll::{Denied, InvalidLimit, Moment, Standing};

use crate::answer::{Answer, Decided, Refused};
use crate::batch::Demand;
use crate::event_reports::Subscribers;
use crate::key::Frame;
use crate::lease::{Lease, Leases};
use crate::rule::{self, Kind, number};
use crate::script::Script;
use crate::store::Store;
use crate::terms::Terms;
use crate::{Decision, RedisPermit, RedisRule, StoreError, StoreErrorKind};

/// A limit held in Redis, with one state for each key. Made by [`Store::limiter`].
///
/// A decision is made by a script, so it is atomic and takes one round trip. The time is that of the server. The state of a
/// key expires as soon as it makes no difference.
///
/// There is no queue: what cannot be granted now is refused, with the time at which to retry. Clones are the same limiter.
///
/// ```no_run
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Decision, Store};
///
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::connect("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// match api.decide("customer 42", 1).await? {
///     Decision::Granted(permit) => println!("{:?} left", permit.standing().remaining),
///     Decision::Denied(denied) => println!("retry after {:?}", denied.retry_after()),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Many callers
///
/// A call of [`decide`](Self::decide) that comes alone is sent at once. Calls that come while round trips of this limiter are
/// under way are collected, and one script decides all of them, in order and exactly as if each had been sent by
/// itself. Each call has its own [deadline](crate::StoreBuilder::deadline) and its own answer. A call that is dropped
/// before it was sent takes nothing.
#[derive(Clone)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    name: String,
    /// Of its keys.
    frame: Frame,
    kind: Kind,
    /// For everything but decisions.
    script: Script,
    /// Where its windows and refills are counted from.
    origin: Moment,
    terms: RwLock<Arc<Terms>>,
    /// Of every length there was.
    leases: Mutex<Vec<Arc<Leases>>>,
    subscribers: Subscribers,
}

impl Store {
    /// A limiter of this name. All processes that use the name in the same namespace share its state, one for each key.
    ///
    /// Windows and refills are counted from 1970 on, so that all processes agree where they begin.
    ///
    /// # Errors
    ///
    /// If the limit cannot be held in Redis: a window of more than 1024 segments, a lease shorter than a
    /// millisecond.
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

    /// Changes the rule of this limiter and its clones. What was used stays used, and what is held stays held.
    ///
    /// Other processes that use the name go by their own rules until they are changed too: every grant is charged to the
    /// rules of all, and each caller is decided by its own. Decisions that are under way are made by the old rule. Leases that
    /// are held keep their length.
    ///
    /// ```
    /// use plimsoll::TokenBucket;
    /// use plimsoll_redis::Store;
    ///
    /// let store = Store::connect("redis://127.0.0.1")?;
    /// let api = store.limiter("api", TokenBucket::per_second(10))?;
    /// api.replace(TokenBucket::per_second(20))?;
    /// assert_eq!(api.limit(), 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A [`Fleet`](crate::Fleet) has a [`replace`](crate::Fleet::replace) of its own, which also changes what it knows of the
    /// rule.
    ///
    /// # Errors
    ///
    /// If the limit cannot be held in Redis, or is of another kind: kinds have different states, so what was used would be
    /// lost. Make another limiter instead.
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

    /// Takes `cost` for `key`, or is refused. Cost 0 asks for the state: it is granted when anything is available,
    /// and takes nothing.
    ///
    /// # Errors
    ///
    /// If the store cannot decide. After [`TimedOut`](crate::StoreErrorKind::TimedOut) or
    /// [`Unreachable`](crate::StoreErrorKind::Unreachable) a rate may have been charged; a lease is returned.
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

    /// Sends a demand, with others that wait.
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

    /// What [`decide`](Self::decide) would answer. Takes nothing, and leaves no key behind.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
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

    /// Takes as much for `key` as there is, at most `most`; the permit says how much.
    ///
    /// # Errors
    ///
    /// If the store cannot decide. What was taken by a lease nevertheless comes back when the lease runs out.
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

    /// Takes `cost` for `key` now, to be used later, and says after which time: at once, if there is enough.
    /// `longest` is the longest time that is acceptable.
    ///
    /// A bucket goes into debt for it, and whoever comes later waits until that is paid. What is reserved cannot be
    /// cancelled.
    ///
    /// # Errors
    ///
    /// If the store cannot decide, or the rule is not one of buckets: windows, logs and leases cannot be
    /// [reserved from](crate::StoreErrorKind::Unsupported) in a store.
    pub async fn reserve(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        longest: Option<Duration>,
    ) -> Result<Result<Duration, Denied>, StoreError> {
        if self.kind() != Kind::TokenBucket {
            return Err(StoreError::new(StoreErrorKind::Unsupported));
        }
        let key = self.key(key.as_ref());
        let longest = longest.map_or_else(String::new, |longest| number(longest.as_nanos()));
        let answer = self.ask("book", key, cost, longest).await?;
        let denied = |refused: Refused| refused.denied(self.limit(), &self.inner.name);
        Ok(answer.booked()?.map_err(denied))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The most that can be granted at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.terms().rule.limit()
    }

    /// Whether what it grants is held by leases, and returned.
    #[must_use]
    pub fn holds_leases(&self) -> bool {
        self.kind() == Kind::Concurrency
    }

    /// How many leases wait to be returned, because the store could not be reached. They are tried again until they would
    /// have run out by themselves.
    #[must_use]
    pub fn unreturned_leases(&self) -> usize {
        let leases = self.inner.leases();
        leases.iter().map(|leases| leases.unreturned()).sum()
    }

    /// How often a lease could not be renewed, or not be returned at the first attempt.
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

    pub(crate) fn kind(&self) -> Kind {
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
        // The id of a lease, a number, a moment, or nothing: scripts pass over what they do not ask for.
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

/// The number of a lease is the microsecond at which it was recorded.
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
