use std::sync::Arc;

use plimsoll::{InvalidLimit, Moment, Standing};

use crate::RedisRule;
use crate::batch::Lists;
use crate::lanes::Batcher;
use crate::lease::Leases;
use crate::store::Store;

/// What changes with the rule.
pub(crate) struct Terms {
    pub(crate) rule: RedisRule,
    pub(crate) promise: Standing,
    /// Whether scripts can decide it the quick way.
    pub(crate) everyday: bool,
    /// The rule as arguments for scripts.
    pub(crate) words: Arc<[String]>,
    pub(crate) batcher: Arc<Batcher<Lists>>,
    pub(crate) leases: Option<Arc<Leases>>,
}

impl Terms {
    /// `known` are the leases there were so far, of which one may be of the same length.
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
            batcher: Batcher::new(Lists::new(&rule, words.clone())),
            promise: rule.promise(),
            everyday: rule.is_everyday(),
            words: words.into(),
            leases,
            rule,
        })
    }

    /// The id of a lease that is asked for, if it has leases.
    pub(crate) fn new_id(&self) -> String {
        let leases = self.leases.as_ref();
        leases.map_or_else(String::new, |leases| leases.new_id())
    }
}
