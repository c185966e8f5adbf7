//! Borrowing: takes permits from the store in batches and decides in this process.

mod lender;
mod pace;
mod portion;
mod refill;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
mod stock;
mod sweep;
mod table;

use std::time::Duration;

use plimsoll::InvalidLimit;

use crate::rule::Shape;
use crate::{RedisLimiter, RedisRule};

pub(crate) use lender::{Known, Lender, LocalResult, Taken};
pub(crate) use portion::Tag;
pub(crate) use refill::Fetch;

/// Lets a [`Fleet`](crate::Fleet) take permits from the store in batches and decide in this process, without a round trip for each
/// demand.
///
/// The size of a batch follows the demand: the amount that was recently used in a [target time](Self::target), at least
/// 1 and at most [`max`](Self::max). The first batch is 1, each further batch is at most twice as large as the one
/// before, and none is larger than half of what remains in the store, so that batches become small when the limit is
/// nearly exhausted. One caller fetches a batch, and concurrent callers wait for it. If the demand is steady, the next
/// batch is fetched before this one is used up.
///
/// Permits that are not used within the [`keep`](Self::keep) time are returned to the store, as are all of them by
/// [`Fleet::give_back`](crate::Fleet::give_back) and when the last handle of the fleet is dropped. After a refusal of
/// the store, this process refuses without asking again until the retry time of the refusal, or until it returns
/// permits itself. It does not notice earlier that another process has returned permits.
///
/// # Error bounds
///
/// Every permit was taken from the store before it is granted, so nothing is granted that the store did not grant. But
/// it may be used later than in the store, by at most the `keep` time. With `m` processes that each hold at most `n`
/// ([`max`](Self::max)) for a key:
///
/// - In any span of time, at most `m * n` more is granted to a key than the limit allows in that span. A
///   [`FixedWindow`](plimsoll::FixedWindow) is never exceeded: permits of one window are not used in the next.
/// - At most `m * n` less is granted than the limit allows: the permits that other processes hold and do not use. In
///   addition, a batch is lost if the store fails before its reply arrives.
///
/// ```
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Borrow, Store};
/// use std::time::Duration;
///
/// let store = Store::open("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(10_000))?;
/// let borrow = Borrow::new().max(100).keep(Duration::from_millis(500));
/// let api = api.fleet().borrowing(borrow).build()?;
/// # let _ = api;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Borrow {
    max: Option<u64>,
    target: Duration,
    keep: Duration,
    max_keys: usize,
}

impl Borrow {
    /// Creates the default settings: at most a twentieth of the limit, for 50 ms of demand, kept for 1 s, and for up to
    /// 10,000 keys.
    ///
    /// ```
    /// use plimsoll_redis::Borrow;
    ///
    /// assert_eq!(Borrow::new(), Borrow::default());
    /// assert_ne!(Borrow::new().max(100), Borrow::new());
    /// ```
    pub const fn new() -> Self {
        Self {
            max: None,
            target: Duration::from_millis(50),
            keep: Duration::from_secs(1),
            max_keys: 10_000,
        }
    }

    /// Sets the maximum that is held for a key, `n` in the [bounds](Self#error-bounds). Default: a twentieth of the limit, at least
    /// 1. If it is below 2, the store decides every demand, as it does for costs above it.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// Sets the time of demand for which a batch should last. Default: 50 ms. A longer time saves round trips, and leaves more
    /// permits unused in processes whose demand ends.
    pub const fn target(mut self, target: Duration) -> Self {
        self.target = target;
        self
    }

    /// Sets the time after which unused permits are returned to the store. Default: 1 s. It bounds the delay with which
    /// a grant may be used, compared with the store.
    pub const fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the maximum number of keys with borrowed permits. Default: 10 000. The store decides for other keys.
    pub const fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    pub(crate) fn lender(self, limiter: &RedisLimiter) -> Result<Lender, InvalidLimit> {
        let kind = Lent::of(&limiter.rule())?;
        if self.keep.is_zero() {
            return Err(InvalidLimit::new("keep", "0ns", "at least 1ns"));
        }
        let settings = self.settings(limiter.limit(), kind);
        Ok(Lender::new(limiter.clone(), settings))
    }

    fn settings(self, limit: u64, kind: Lent) -> Settings {
        Settings {
            most: self.max.unwrap_or(limit / 20).clamp(1, limit.max(1)),
            target: self.target,
            keep: self.keep,
            max_keys: self.max_keys,
            kind,
        }
    }
}

impl Default for Borrow {
    fn default() -> Self {
        Self::new()
    }
}

/// The settings of a [`Borrow`] for a given limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    most: u64,
    target: Duration,
    keep: Duration,
    max_keys: usize,
    kind: Lent,
}

/// The properties of a rule that matter for borrowing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lent {
    /// Whether a grant stops counting at the reset, so that it must not be used afterwards.
    windowed: bool,
    /// Whether a refusal does not change the state, so that it can be repeated locally.
    refuses_quietly: bool,
    /// Whether a refund must name the exact moment of the grant.
    exact: bool,
}

impl Lent {
    fn of(rule: &RedisRule) -> Result<Self, InvalidLimit> {
        let wrong = |what: &str, rule| Err(InvalidLimit::new("borrow", what, rule));
        let refuses_quietly = match &rule.shape {
            Shape::Concurrency { .. } => return wrong("leases", "a rate"),
            Shape::SlidingLog(log) if !log.gap().is_zero() => {
                return wrong("a log with gaps", "a rate without gaps");
            }
            Shape::SlidingLog(log) => !log.counts_refusals(),
            _ => true,
        };
        Ok(Self {
            windowed: !matches!(rule.shape, Shape::Buckets(_)),
            refuses_quietly,
            exact: matches!(rule.shape, Shape::SlidingLog(_)),
        })
    }
}
