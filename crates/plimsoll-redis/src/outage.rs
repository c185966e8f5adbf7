//! Decisions while the store does not decide.

use std::sync::Arc;

use plimsoll::rate::Share;
use plimsoll::{
    Bandwidths, Clock, Concurrency, FixedWindow, InvalidLimit, Keyed, PerKey, Rule, SlidingCounter,
    SlidingWindow,
};

use crate::RedisRule;
use crate::rule::Shape;

/// The answer of a [`Fleet`](crate::Fleet) when the store does not decide: it is unreachable, slow or full, or replies with an
/// error.
///
/// The default is [`Deny`](Self::Deny). A limit that fails open stops protecting when the load may be highest, and an attacker can
/// exploit it. A limit that fails closed is noticed at once, and its refusals carry the reason
/// [`Unavailable`](plimsoll::Reason::Unavailable), which does not blame the caller. Choose [`Admit`](Self::Admit) if it is
/// better to serve without a limit than not at all.
///
/// ```
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Outage, Store};
///
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(100))?;
/// // Four processes: each enforces a quarter of the limit while Redis is down.
/// let api = api.fleet().outage(Outage::Local { share: 0.25 }).build()?;
/// # let _ = api;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | setting | during an outage | suits |
/// |---|---|---|
/// | [`Deny`](Self::Deny) | nothing is granted | limits that protect something: logins, paid quotas |
/// | [`Admit`](Self::Admit) | everything is granted | limits that only keep use fair |
/// | [`Local`](Self::Local) | a share of the limit in each process | fleets of a known size with even load |
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub enum Outage {
    /// Grants every demand.
    Admit,
    /// Refuses every demand with the reason [`Unavailable`](plimsoll::Reason::Unavailable).
    #[default]
    Deny,
    /// Each process enforces a share of the limit in memory, with the same rule. With `n` processes and an even load, a share of 1/n
    /// enforces the whole limit. A concurrency limit is at least 1 in each process.
    ///
    /// The limiter in memory does not know what was used before the outage, so it begins with the whole share.
    Local {
        /// The share of the limit, above 0 and at most 1.
        share: f64,
    },
}

/// An outage setting with its limiter in memory.
#[derive(Clone)]
pub(crate) enum Fallback {
    Admit,
    Deny,
    Local(InMemory),
}

/// A limiter in memory with the keys of the store.
pub(crate) type InMemory = Arc<dyn PerKey<[u8]>>;

impl Outage {
    pub(crate) fn prepare(
        self,
        rule: &RedisRule,
        name: &str,
        clock: &Clock,
    ) -> Result<Fallback, InvalidLimit> {
        Ok(match self {
            Self::Admit => Fallback::Admit,
            Self::Deny => Fallback::Deny,
            Self::Local { share } => {
                Fallback::Local(in_memory(rule, share, name, clock, MOST_KEYS)?)
            }
        })
    }
}

/// Maximum number of keys in memory.
const MOST_KEYS: usize = 1_000_000;

/// Builds a limiter in memory for a share of a rule.
pub(crate) fn in_memory(
    rule: &RedisRule,
    share: f64,
    name: &str,
    clock: &Clock,
    most_keys: usize,
) -> Result<InMemory, InvalidLimit> {
    let build = Build {
        name,
        clock,
        most_keys,
    };
    Ok(match &rule.shape {
        Shape::FixedWindow { quota, to_epoch } => {
            let rule = FixedWindow::new(*quota).share(share)?;
            build.keyed(if *to_epoch {
                rule.aligned_to_epoch()
            } else {
                rule
            })
        }
        Shape::SlidingWindow { quota, segments } => {
            build.keyed(SlidingWindow::try_new(*quota, *segments)?.share(share)?)
        }
        Shape::SlidingCounter(quota) => build.keyed(SlidingCounter::new(*quota).share(share)?),
        Shape::Buckets(buckets) => match buckets.as_slice() {
            [bucket] => build.keyed(bucket.share(share)?),
            buckets => build.keyed(Bandwidths::try_new(buckets.iter().cloned())?.share(share)?),
        },
        Shape::SlidingLog(log) => build.keyed(log.share(share)?),
        Shape::Concurrency { limit, .. } => {
            build.keyed(Concurrency::try_new(*limit)?.share(share)?)
        }
    })
}

struct Build<'a> {
    name: &'a str,
    clock: &'a Clock,
    most_keys: usize,
}

impl Build<'_> {
    fn keyed<R: Rule + Clone>(&self, rule: R) -> InMemory {
        let keyed = Keyed::<Vec<u8>, R>::builder(rule)
            .name(self.name)
            .clock(self.clock.clone())
            .max_keys(self.most_keys);
        Arc::new(keyed.build())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll::{Demand, ManualClock, Quota, Reason, SlidingLog, TokenBucket};

    use super::*;

    /// The burst of a share.
    fn grants(rule: impl Into<RedisRule>, share: f64) -> usize {
        let clock = ManualClock::new().clock();
        let local = in_memory(&rule.into(), share, "local", &clock, 10).expect("a share");
        let mut held = Vec::new();
        loop {
            match local.try_acquire(b"key", Demand::ONE) {
                Ok(permit) => held.push(permit),
                Err(denied) => {
                    assert_eq!(denied.reason(), Reason::Exhausted);
                    return held.len();
                }
            }
        }
    }

    #[test]
    fn a_share_of_each_rule_grants_a_share() {
        let quota = Quota::per_minute(100);
        assert_eq!(grants(FixedWindow::new(quota), 0.25), 25);
        assert_eq!(grants(FixedWindow::new(quota).aligned_to_epoch(), 1.0), 100);
        assert_eq!(grants(SlidingWindow::new(quota, 6), 0.25), 25);
        assert_eq!(grants(SlidingCounter::new(quota), 0.25), 25);
        assert_eq!(grants(SlidingLog::new(quota).counting_refusals(), 0.25), 25);
        assert_eq!(grants(TokenBucket::per_second(100), 0.25), 25);
        assert_eq!(grants(TokenBucket::interval(quota), 0.25), 25);
        let pair = [TokenBucket::per_second(100), TokenBucket::per_second(40)];
        assert_eq!(grants(Bandwidths::new(pair), 0.25), 10);
        assert_eq!(grants(Concurrency::new(100), 0.25), 25);
        assert_eq!(grants(Concurrency::new(2), 0.1), 1);
    }

    #[test]
    fn only_a_share_is_a_share() {
        let rule = RedisRule::from(Concurrency::new(2));
        let clock = Clock::system();
        for share in [0.0, -1.0, 1.1, f64::NAN, f64::INFINITY] {
            let invalid = Outage::Local { share }.prepare(&rule, "x", &clock);
            assert_eq!(invalid.err().expect("no share").field(), "share");
        }
        let long = RedisRule::from(FixedWindow::new(Quota::new(
            1,
            Duration::from_secs(1 << 32),
        )));
        let tiny = Outage::Local { share: 1e-9 };
        assert!(tiny.prepare(&long, "x", &clock).is_err());
    }
}
