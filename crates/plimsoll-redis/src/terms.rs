use std::sync::Arc;

use plimsoll::{InvalidLimit, Moment, Standing};

use crate::RedisRule;
use crate::batch::LimiterBatches;
use crate::batcher::Batcher;
use crate::lease::Leases;
use crate::store::Store;

/// The parts of a limiter that [`RedisLimiter::replace`](crate::RedisLimiter::replace) changes.
pub(crate) struct Terms {
    pub(crate) rule: RedisRule,
    pub(crate) promise: Standing,
    /// Whether the quick script can decide the rule.
    pub(crate) quick: bool,
    /// The script arguments of the rule.
    pub(crate) words: Arc<[String]>,
    pub(crate) batcher: Arc<Batcher<LimiterBatches>>,
    pub(crate) leases: Option<Arc<Leases>>,
}

impl Terms {
    /// `known` are the leases of earlier rules, one of which may have the same length.
    pub(crate) fn new(
        store: &Store,
        rule: RedisRule,
        origin: Moment,
        known: &mut Vec<Arc<Leases>>,
    ) -> Result<Self, InvalidLimit> {
        rule.check()?;
        let leases = rule.lease_length().map(|length| {
            let same = known.iter().find(|leases| leases.length() == length);
            let same = same.cloned();
            same.unwrap_or_else(|| {
                let new = Leases::new(store.clone(), length);
                known.push(Arc::clone(&new));
                new
            })
        });
        let words = rule.words(origin);
        Ok(Self {
            batcher: Batcher::new(LimiterBatches::new(&rule, words.clone())),
            promise: rule.promise(),
            quick: rule.is_quick(),
            words: words.into(),
            leases,
            rule,
        })
    }

    /// A new id of a lease; empty if the rule has no leases.
    pub(crate) fn new_id(&self) -> String {
        let leases = self.leases.as_ref();
        leases.map_or_else(String::new, |leases| leases.new_id())
    }
}
