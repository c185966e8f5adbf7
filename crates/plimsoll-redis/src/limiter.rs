use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Denied, InvalidLimit, Moment, Standing};

use crate::answer::{Answer, Decided, Refused, Verdict};
use crate::batch::{Batcher, Demand};
use crate::key;
use crate::lease::Leases;
use crate::rule::{Kind, number};
use crate::script::Script;
use crate::store::Store;
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
///     Decision::Granted(permit) => println!("{} left", permit.standing().remaining()),
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
    rule: RedisRule,
    /// Decides.
    batcher: Arc<Batcher>,
    /// For everything else.
    script: Script,
    words: Vec<String>,
    leases: Option<Arc<Leases>>,
}

/// What a key looked like in a store at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// What could be granted.
    pub available: u64,
    /// What was granted and is not yet given back or replenished.
    pub in_use: u64,
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
        rule.check()?;
        let inner = Inner {
            name: name.to_owned(),
            batcher: Batcher::new(store.clone(), &rule),
            script: Script::deciding([rule.kind()]),
            words: rule.words(store.origin()),
            leases: rule
                .lease()
                .map(|length| Leases::new(store.clone(), length)),
            store,
            rule,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Takes `cost` for `key`, or is refused. Cost 0 asks for the state: it is granted when anything is available,
    /// and takes nothing.
    ///
    /// # Errors
    ///
    /// If the store cannot decide. After [`TimedOut`](crate::StoreErrorKind::TimedOut) or
    /// [`Unreachable`](crate::StoreErrorKind::Unreachable) a rate may have been charged; a lease is given back.
    pub async fn decide(&self, key: impl AsRef<[u8]>, cost: u32) -> Result<Decision, StoreError> {
        let inner = &*self.inner;
        let key = self.key(key.as_ref());
        let id = self.new_id();
        let lease = match (&inner.leases, cost) {
            (Some(leases), 1..) => Some(leases.ask(key.clone(), &id, cost)),
            _ => None,
        };
        let demand = Demand {
            key,
            cost,
            id,
            lease,
        };
        let (decided, lease) = inner.batcher.decide(demand).await?;
        Ok(match decided {
            Decided::Granted(standing, taken) => {
                let leases = lease.into_iter().map(|lease| lease.granted(fence(taken)));
                let permit = RedisPermit::new(cost, standing, leases.collect());
                Decision::Granted(permit.taken_at(taken))
            }
            Decided::Refused(refused) => {
                if let Some(lease) = lease {
                    lease.abandon();
                }
                Decision::Denied(refused.denied(self.limit(), &inner.name))
            }
        })
    }

    /// What [`decide`](Self::decide) would answer. Takes nothing, and leaves no key behind.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    pub async fn estimate(
        &self,
        key: impl AsRef<[u8]>,
        cost: u32,
    ) -> Result<Result<Standing, Denied>, StoreError> {
        let key = self.key(key.as_ref());
        let mut answer = self.ask("peek", key, cost, String::new()).await?;
        Ok(match answer.verdict(&[self.limit()])? {
            Verdict::Granted(standings) => Ok(standings.first().copied().unwrap_or_default()),
            Verdict::Refused(refused) => Err(refused.denied(self.limit(), &self.inner.name)),
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
        most: u32,
    ) -> Result<RedisPermit, StoreError> {
        let key = self.key(key.as_ref());
        let id = self.new_id();
        let lease = self
            .inner
            .leases
            .as_ref()
            .map(|leases| leases.ask(key.clone(), &id, most));
        let mut answer = self.ask("up_to", key, most, id).await?;
        let taken: u32 = answer.number()?;
        let standing = Standing::new(u64::from(self.limit()), answer.number()?);
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
        cost: u32,
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

    /// Makes `amount` more available to `key`, at most up to the limit. What is held by leases only they give back.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn add(&self, key: impl AsRef<[u8]>, amount: u32) -> Result<(), StoreError> {
        let key = self.key(key.as_ref());
        self.ask("add", key, amount, String::new()).await?;
        Ok(())
    }

    /// Writes down a key that nobody has used, so that what it begins with counts from now and not from its
    /// first use. It makes a difference for buckets that do not begin full.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn begin(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        let key = self.key(key.as_ref());
        self.ask("begin", key, 0, String::new()).await?;
        Ok(())
    }

    /// Forgets what `key` has used. Leases that are out cannot give anything back any more.
    ///
    /// # Errors
    ///
    /// If the store cannot be changed.
    pub async fn forget(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.inner.store.delete(&self.key(key.as_ref())).await
    }

    /// What `key` looks like now.
    ///
    /// # Errors
    ///
    /// If the store cannot tell.
    pub async fn look(&self, key: impl AsRef<[u8]>) -> Result<Seen, StoreError> {
        let key = self.key(key.as_ref());
        let mut answer = self.ask("look", key, 0, String::new()).await?;
        Ok(Seen {
            available: answer.number()?,
            in_use: answer.number()?,
        })
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The most that can be granted at once.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.inner.rule.limit()
    }

    /// Whether what it grants is held by leases, and given back.
    #[must_use]
    pub fn holds_leases(&self) -> bool {
        self.inner.leases.is_some()
    }

    /// How many leases wait to be given back, because the store could not be reached. They are tried again until they would
    /// have run out by themselves.
    #[must_use]
    pub fn unreturned_leases(&self) -> usize {
        let leases = self.inner.leases.as_ref();
        leases.map_or(0, |leases| leases.unreturned())
    }

    /// How often a lease could not be renewed, or not be given back at the first attempt.
    #[must_use]
    pub fn lease_failures(&self) -> u64 {
        self.inner
            .leases
            .as_ref()
            .map_or(0, |leases| leases.failures())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn rule(&self) -> &RedisRule {
        &self.inner.rule
    }

    pub(crate) fn kind(&self) -> Kind {
        self.inner.rule.kind()
    }

    pub(crate) fn leases(&self) -> Option<&Arc<Leases>> {
        self.inner.leases.as_ref()
    }

    pub(crate) fn key(&self, subject: &[u8]) -> Vec<u8> {
        let namespace = self.inner.store.namespace();
        key::key(
            namespace,
            self.inner.store.naming(),
            subject,
            self.inner.name.as_bytes(),
            self.inner.rule.kind(),
        )
    }

    /// The id of a lease that is asked for, if it has leases.
    pub(crate) fn new_id(&self) -> String {
        let leases = self.inner.leases.as_ref();
        leases.map_or_else(String::new, |leases| leases.new_id())
    }

    /// Its arguments for the script.
    pub(crate) fn words(&self, id: String) -> impl Iterator<Item = String> {
        let id = self.inner.leases.is_some().then_some(id);
        self.inner.words.iter().cloned().chain(id)
    }

    pub(crate) async fn ask(
        &self,
        what: &str,
        key: Vec<u8>,
        amount: u32,
        last: String,
    ) -> Result<Answer, StoreError> {
        let inner = &*self.inner;
        let (now, amount) = (inner.store.now(), amount.to_string());
        let mut arguments = Vec::with_capacity(4 + inner.words.len());
        arguments.extend([what, &now, &amount]);
        arguments.extend(inner.words.iter().map(String::as_str));
        // The id of a lease, a number, a moment, or nothing: scripts pass over what they do not ask for.
        arguments.push(&last);
        Answer::new(inner.store.run(&inner.script, &[key], &arguments).await?)
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
            .field("rule", &self.inner.rule)
            .finish_non_exhaustive()
    }
}
