//! The peers, each as its documentation uses it.

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use governor::clock::QuantaUpkeepClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::ShrinkableKeyedStateStore;
use limitador::limit::Namespace;
use rate_net::{CoarseClock, Eviction};
use throttlecrab::PeriodicStore;

use super::contenders::Worth::{Exact, ExactLate, Loose};
use super::contenders::{Entrant, Limit, Limiter};
use super::keys::Key;
use crate::contender::Role::Peer;
use crate::limiters::{allowed, granted};

pub(crate) const GOVERNOR: &str = "governor, DashMap";
const TICK: Duration = Duration::from_millis(1);

/// Peers that take keys of any kind.
pub(super) fn of_any<K: Key>() -> Vec<Entrant<K>> {
    use governor::RateLimiter;
    vec![
        Entrant::new(Peer, GOVERNOR, Exact, |limit| {
            Box::new(RateLimiter::dashmap(governor_quota(limit)))
        }),
        Entrant::new(
            Peer,
            "governor, DashMap, upkeep clock",
            ExactLate,
            |limit| {
                let clock = QuantaUpkeepClock::from_interval(TICK).expect("a thread");
                Box::new(RateLimiter::dashmap_with_clock(
                    governor_quota(limit),
                    clock,
                ))
            },
        ),
        Entrant::new(Peer, "governor, Mutex<HashMap>", Exact, |limit| {
            Box::new(RateLimiter::hashmap(governor_quota(limit)))
        }),
        Entrant::new(Peer, "gcra", Exact, |limit| {
            Box::new(Gcra {
                limiter: gcra::RateLimiter::new(0),
                limit: gcra::RateLimit::new(limit.burst, limit.every * limit.burst),
            })
        }),
    ]
}

/// Peers that take numbers.
pub(super) fn of_numbers() -> Vec<Entrant<u64>> {
    vec![
        Entrant::new(Peer, "rate-net", Exact, |limit| Box::new(rate_net(limit))),
        Entrant::new(Peer, "rate-net, coarse clock", ExactLate, |limit| {
            Box::new(rate_net(limit).with_clock(coarse()))
        }),
    ]
}

/// Peers that take texts.
pub(super) fn of_texts() -> Vec<Entrant<String>> {
    vec![
        Entrant::new(Peer, "rate-net", Exact, |limit| Box::new(rate_net(limit))),
        Entrant::new(Peer, "rate-net, coarse clock", ExactLate, |limit| {
            Box::new(rate_net(limit).with_clock(coarse()))
        }),
        Entrant::new(Peer, "throttlecrab, PeriodicStore", Loose, |limit| {
            Box::new(Throttlecrab::new(limit))
        }),
        Entrant::new(Peer, "limitador, in memory", Loose, |limit| {
            Box::new(Limitador::new(limit))
        }),
    ]
}

fn governor_quota(limit: &Limit) -> governor::Quota {
    governor::Quota::with_period(limit.every)
        .expect("not zero")
        .allow_burst(NonZeroU32::new(limit.burst).expect("not zero"))
}

impl<K, S, C> Limiter<K> for governor::RateLimiter<K, S, C, NoOpMiddleware<C::Instant>>
where
    K: Key,
    S: ShrinkableKeyedStateStore<K> + Sync,
    C: governor::clock::Clock + Sync,
    C::Instant: Sync,
{
    #[inline(always)]
    fn ask(&self, key: &K) -> bool {
        granted(self.check_key(key))
    }

    fn take(&self, key: &K, cost: u32) -> bool {
        let cost = NonZeroU32::new(cost).expect("not zero");
        matches!(self.check_key_n(key, cost), Ok(Ok(())))
    }

    fn needs_tidying(&self) -> bool {
        true
    }

    fn tidy(&self) {
        self.retain_recent();
    }

    fn shrink(&self) {
        self.shrink_to_fit();
    }
}

struct Gcra<K: Key> {
    limiter: gcra::RateLimiter<K>,
    limit: gcra::RateLimit,
}

impl<K: Key> Limiter<K> for Gcra<K> {
    #[inline(always)]
    fn ask(&self, key: &K) -> bool {
        self.take(key, 1)
    }

    fn take(&self, key: &K, cost: u32) -> bool {
        granted(at_once(self.limiter.check(key.clone(), &self.limit, cost)))
    }

    fn needs_tidying(&self) -> bool {
        true
    }

    fn tidy(&self) {
        self.limiter.prune_expired();
    }
}

/// The answer of a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("it only locks a shard of its map"),
    }
}

fn rate_net(limit: &Limit) -> rate_net::RateLimiter {
    let quota = rate_net::Quota::rate(1, limit.every).expect("a valid rate");
    rate_net::RateLimiter::with_quota(quota.with_burst(limit.burst))
        .with_eviction(Eviction::capacity(limit.max_keys))
}

fn coarse() -> CoarseClock {
    CoarseClock::spawn(TICK).expect("a thread")
}

impl<C: clock_lib::Clock + Clone + Sync> Limiter<u64> for rate_net::RateLimiter<C> {
    #[inline(always)]
    fn ask(&self, key: &u64) -> bool {
        allowed(self.check(*key))
    }

    fn take(&self, key: &u64, cost: u32) -> bool {
        allowed(self.check_n(*key, cost))
    }

    fn tidy(&self) {
        self.retain_recent();
    }

    fn shrink(&self) {
        self.shrink_to_fit();
    }
}

impl<C: clock_lib::Clock + Clone + Sync> Limiter<String> for rate_net::RateLimiter<C> {
    #[inline(always)]
    fn ask(&self, key: &String) -> bool {
        allowed(self.check_bytes(key))
    }

    fn take(&self, key: &String, cost: u32) -> bool {
        allowed(self.check_n_bytes(key, cost))
    }

    fn tidy(&self) {
        self.retain_recent();
    }

    fn shrink(&self) {
        self.shrink_to_fit();
    }
}

/// It is changed to be asked, so several threads need a lock around it.
struct Throttlecrab {
    limiter: Mutex<throttlecrab::RateLimiter<PeriodicStore>>,
    burst: i64,
    /// For a thousand tokens.
    seconds: i64,
}

impl Throttlecrab {
    fn new(limit: &Limit) -> Self {
        // Its own minute is longer than any trial here in which something is to be forgotten.
        let store = PeriodicStore::builder().cleanup_interval(Duration::from_secs(1));
        Self {
            limiter: Mutex::new(throttlecrab::RateLimiter::new(store.build())),
            burst: i64::from(limit.burst),
            seconds: i64::try_from(limit.every.as_millis()).unwrap_or(i64::MAX),
        }
    }
}

impl Limiter<String> for Throttlecrab {
    #[inline(always)]
    fn ask(&self, key: &String) -> bool {
        self.take(key, 1)
    }

    fn take(&self, key: &String, cost: u32) -> bool {
        #[expect(clippy::disallowed_methods, reason = "it asks its callers for it")]
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = limiter.rate_limit(key, self.burst, 1000, self.seconds, i64::from(cost), now);
        let (allowed, details) = answer.expect("a valid limit");
        if !allowed {
            black_box(&details);
        }
        allowed
    }
}

/// A limit for each value of the variable `key`.
struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    fn new(limit: &Limit) -> Self {
        let limiter = limitador::RateLimiter::new(limit.max_keys as u64);
        let namespace = Namespace::from("bench");
        let window = limit.every.as_secs_f64() * f64::from(limit.burst);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some seconds"
        )]
        let window = window.ceil() as u64;
        let key = "key".try_into().expect("a valid expression");
        limiter.add_limit(limitador::limit::Limit::new(
            namespace.clone(),
            u64::from(limit.burst),
            window,
            vec![],
            vec![key],
        ));
        Self { limiter, namespace }
    }
}

impl Limiter<String> for Limitador {
    #[inline(always)]
    fn ask(&self, key: &String) -> bool {
        self.take(key, 1)
    }

    fn take(&self, key: &String, cost: u32) -> bool {
        let values = HashMap::from([("key".to_owned(), key.clone())]);
        let answer = self.limiter.check_rate_limited_and_update(
            &self.namespace,
            &values.into(),
            u64::from(cost),
        );
        let answer = answer.expect("a counter in memory");
        if answer.limited {
            black_box(&answer);
        }
        !answer.limited
    }
}
