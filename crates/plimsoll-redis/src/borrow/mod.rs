//! Taking in batches, and deciding here.

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

pub(crate) use lender::{Here, Known, Lender, Taken};
pub(crate) use portion::Tag;
pub(crate) use refill::Fetch;

/// How a [`Fleet`](crate::Fleet) takes from the store in batches and decides here, without a round trip for each demand.
///
/// A batch is sized by demand: as much as was used lately in a [target time](Self::target), at least 1 and at most
/// [`most`](Self::most), at first 1 and then at most twice the batch before; and never more than half of what is left in the
/// store, so that batches get small when the limit is nearly used up. Of those who come while a batch is on its way
/// one asks, and the others wait for it. If demand is steady the next batch is fetched before this one is used up.
///
/// What is not used within the time it is [kept](Self::keep) goes back to the store, and so does everything when the last
/// handle of the fleet is dropped, or with [`Fleet::give_back`](crate::Fleet::give_back). What was refused by the store is
/// refused here too until the time it said, without asking, or until this process gives something back. If another process
/// gives back before, that is noticed late, by at most that time.
///
/// # How far it is off
///
/// Every grant was taken from the store before, so nothing is granted that the store did not grant; but it may be used
/// later than the store thinks, by at most the time it is kept. With `m` processes that each hold at most `n`
/// ([`most`](Self::most)) for a key:
///
/// - In any span of time at most `m * n` more is granted to a key than the limit grants in such a span. A
///   [`FixedWindow`](plimsoll::FixedWindow) is never exceeded at all: what was taken in one window is not used in the
///   next.
/// - At most `m * n` less is granted than could be, namely what others hold and do not use. A batch whose answer never
///   came, because the store failed, is lost on top of that.
///
/// ```
/// use plimsoll::TokenBucket;
/// use plimsoll_redis::{Borrow, Store};
/// use std::time::Duration;
///
/// let store = Store::connect("redis://127.0.0.1")?;
/// let api = store.limiter("api", TokenBucket::per_second(10_000))?;
/// let borrow = Borrow::new().most(100).keep(Duration::from_millis(500));
/// let api = api.fleet().borrowing(borrow).build()?;
/// # let _ = api;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Borrow {
    most: Option<u64>,
    target: Duration,
    keep: Duration,
    max_keys: usize,
}

impl Borrow {
    /// At most a twentieth of the limit, enough for 50 ms, kept for a second, for up to 10 000 keys.
    pub const fn new() -> Self {
        Self {
            most: None,
            target: Duration::from_millis(50),
            keep: Duration::from_secs(1),
            max_keys: 10_000,
        }
    }

    /// The most that is held for a key: `n` of what is said above. A twentieth of the limit, and at least 1, unless said
    /// otherwise. With less than 2, or for costs above it, every demand is decided by the store.
    pub const fn most(mut self, most: u64) -> Self {
        self.most = Some(most);
        self
    }

    /// For how long a batch is to be enough; 50 ms unless said otherwise.
    pub const fn target(mut self, target: Duration) -> Self {
        self.target = target;
        self
    }

    /// After which time what was not used goes back; 1 s unless said otherwise.
    pub const fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// For how many keys at once; 10 000 unless said otherwise. The store decides for others.
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
            most: self.most.unwrap_or(limit / 20).clamp(1, limit.max(1)),
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

/// What is not left open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    most: u64,
    target: Duration,
    keep: Duration,
    max_keys: usize,
    kind: Lent,
}

/// What matters of a rule that is borrowed from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lent {
    /// Whether what was taken counts for nothing after the reset, so that it must not be used after it.
    windowed: bool,
    /// Whether a refusal changes nothing, so that it need not be asked for again.
    refuses_quietly: bool,
    /// Whether a refund has to be made for the moment at which the amount was taken.
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
