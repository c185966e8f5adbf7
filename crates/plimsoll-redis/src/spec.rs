//! Converts descriptions of limiters (`plimsoll-spec`) to rules.

use plimsoll::Concurrency;
use plimsoll_spec::{InvalidSpec, Kind, Rate};

use crate::RedisRule;

impl RedisRule {
    /// Builds the rule for a described kind; `None` for kinds that Redis cannot store.
    ///
    /// ```
    /// use plimsoll_redis::RedisRule;
    /// use plimsoll_spec::{Limiter, Units, document, read_one};
    ///
    /// let root = document("{ kind: fixed_window, limit: 5, window: 1s }", "a limiter")?;
    /// let limiter: Limiter = read_one(&root, Units::Required)?;
    /// assert!(matches!(RedisRule::described(&limiter.kind), Some(Ok(rule)) if rule.limit() == 5));
    /// # Ok::<(), plimsoll_spec::Problem>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the numbers of the description are invalid.
    pub fn described(kind: &Kind) -> Option<Result<Self, InvalidSpec>> {
        fn of<R: Rate>(rate: &R) -> Result<RedisRule, InvalidSpec>
        where
            RedisRule: From<R::Rule>,
        {
            rate.rule().map(RedisRule::from)
        }
        Some(match kind {
            Kind::FixedWindow(rate) => of(rate),
            Kind::SlidingWindow(rate) => of(rate),
            Kind::SlidingLog(rate) => of(rate),
            Kind::SlidingCounter(rate) => of(rate),
            Kind::TokenBucket(rate) => of(rate),
            Kind::Bandwidths(rate) => of(rate),
            Kind::Concurrency { limit, lease } => {
                let rule = Concurrency::try_new(limit.0).map(Self::from);
                let rule = rule.map(|rule| match lease {
                    Some(lease) => rule.lease((*lease).into()),
                    None => rule,
                });
                rule.map_err(InvalidSpec::from)
            }
            _ => return None,
        })
    }
}
