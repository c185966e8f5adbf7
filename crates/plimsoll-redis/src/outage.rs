//! What is answered while the store cannot decide.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{
    Bandwidths, Clock, Concurrency, FixedWindow, InvalidLimit, Keyed, PerKey, Quota, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};

use crate::RedisRule;
use crate::rule::Shape;

/// What a [`Fleet`](crate::Fleet) answers when the store cannot decide: it is gone, slow, full, or refuses.
///
/// To refuse is the default. A limit that opens by itself is found out about by those it was there to stop, and
/// what it protects may be what cannot bear more; a limit that closes is noticed at once, and says
/// [`Unavailable`](plimsoll::Reason::Unavailable), not that anybody did too much. Who would rather serve without a limit
/// than not at all says so.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub enum Outage {
    /// Everything is granted.
    Admit,
    /// Everything is refused, as [`Unavailable`](plimsoll::Reason::Unavailable).
    #[default]
    Deny,
    /// Each process grants a share of the limit by itself, by the same rule in memory: with `n` processes a share of 1/n
    /// is the limit again, as far as the load is spread evenly. A limit on what is held at once is at least 1
    /// in each process.
    ///
    /// It knows nothing of what was used before, so it begins with the whole share.
    Local {
        /// Above 0, and at most 1.
        share: f64,
    },
}

/// An outage setting, ready to answer.
#[derive(Clone)]
pub(crate) enum Fallback {
    Admit,
    Deny,
    Local(InMemory),
}

/// A rule in memory, for keys as they are in the store.
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
                if !(share > 0.0 && share <= 1.0) {
                    let rule = "above 0 and at most 1";
                    return Err(InvalidLimit::new("share", share, rule));
                }
                Fallback::Local(in_memory(rule, share, name, clock, MOST_KEYS)?)
            }
        })
    }
}

/// How many keys are remembered while there is no store.
const MOST_KEYS: usize = 1_000_000;

/// A share of a rule, in memory.
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
            let rule = FixedWindow::new(part_of(*quota, share)?);
            build.keyed(if *to_epoch {
                rule.aligned_to_epoch()
            } else {
                rule
            })
        }
        Shape::SlidingWindow { quota, segments } => {
            build.keyed(SlidingWindow::try_new(part_of(*quota, share)?, *segments)?)
        }
        Shape::SlidingCounter(quota) => build.keyed(SlidingCounter::new(part_of(*quota, share)?)),
        Shape::Buckets(buckets) => {
            let parts = buckets.iter().map(|bucket| part_of_bucket(bucket, share));
            let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
            match (parts.pop(), parts.is_empty()) {
                (Some(bucket), true) => build.keyed(bucket),
                (last, _) => build.keyed(Bandwidths::new(parts.into_iter().chain(last))),
            }
        }
        Shape::SlidingLog(log) => {
            let rule = SlidingLog::new(part_of(log.quota(), share)?).with_min_gap(log.min_gap());
            build.keyed(if log.counts_refusals() {
                rule.counting_refusals()
            } else {
                rule
            })
        }
        Shape::Concurrency { limit, .. } => {
            build.keyed(Concurrency::try_new(whole_part(*limit, share).max(1))?)
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

/// As many whole units as fit the share; if not even one does, one in so much more time.
fn part_of(quota: Quota, share: f64) -> Result<Quota, InvalidLimit> {
    match whole_part(quota.units(), share) {
        0 => Quota::try_new(1, longer(quota.period(), f64::from(quota.units()) * share)),
        units => Quota::try_new(units, quota.period()),
    }
}

fn part_of_bucket(bucket: &TokenBucket, share: f64) -> Result<TokenBucket, InvalidLimit> {
    let refill = bucket.refill();
    let part = if bucket.is_greedy() {
        // Exactly the share: the same, in more time.
        let period = longer(refill.period(), share);
        TokenBucket::greedy(Quota::try_new(refill.units(), period)?)
    } else {
        TokenBucket::interval(part_of(refill, share)?)
    };
    let burst = whole_part(bucket.burst(), share).max(1);
    let initial = whole_part(bucket.initial(), share);
    part.try_with_burst(burst)?.try_with_initial(initial)
}

fn longer(period: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(period.as_secs_f64() / share).unwrap_or(Duration::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number is between 0 and the number"
)]
fn whole_part(number: u32, share: f64) -> u32 {
    (f64::from(number) * share) as u32
}

#[cfg(test)]
mod tests {
    use plimsoll::{Demand, ManualClock, Reason};

    use super::*;

    /// How many of a share are granted at once.
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
    fn a_share_of_less_than_one_takes_more_time_instead() {
        let part = part_of(Quota::per_minute(2), 0.25).expect("a quota");
        assert_eq!(part, Quota::new(1, Duration::from_secs(120)));
        let bucket = part_of_bucket(&TokenBucket::per_second(10), 0.25).expect("a bucket");
        assert_eq!(
            bucket.refill(),
            Quota::new(1, Duration::from_millis(400)),
            "2.5 a second"
        );
        assert_eq!(bucket.burst(), 2);
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
