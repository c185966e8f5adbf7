//! Limits whose terms come with the ask.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use plimsoll::{Clock, Denied, InvalidLimit, Keyed, Quota, Reason, Standing, TokenBucket};

use crate::terms::LastTerms;

/// The terms of a token bucket that come with an ask: `refill` tokens in each `every`, and at most `burst` saved up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// The most that is granted at once.
    pub burst: u64,
    /// How much comes back.
    pub refill: u64,
    /// In which time.
    pub every: Duration,
}

impl Terms {
    /// Terms of these numbers. They are checked when they are used.
    #[must_use]
    pub const fn new(burst: u64, refill: u64, every: Duration) -> Self {
        Self {
            burst,
            refill,
            every,
        }
    }

    fn rule(self) -> Result<TokenBucket, InvalidLimit> {
        let quota = Quota::try_new(self.refill, self.every)?;
        TokenBucket::greedy(quota).try_burst(self.burst)
    }
}

/// Token buckets by key, each with the terms of whoever asks: what `CL.THROTTLE` and overrides of Envoy need.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_engine::{Parametric, Terms};
/// use std::time::Duration;
///
/// let buckets = Parametric::new(Clock::system(), 1_000_000);
/// let terms = Terms::new(2, 1, Duration::from_secs(60));
/// assert!(buckets.take("anna", terms, 2)?.is_ok());
/// assert!(buckets.take("anna", terms, 1)?.is_err());
/// // Other terms for the same key: what was used stays used.
/// let more = Terms::new(5, 1, Duration::from_secs(60));
/// assert_eq!(buckets.take("anna", more, 1)?.unwrap().remaining, Some(2));
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// Bounded: so many keys for each terms, and 1,024 different terms. More terms are refused with
/// [`KeysFull`](Reason::KeysFull).
pub struct Parametric {
    clock: Clock,
    most_keys: usize,
    tables: RwLock<Tables>,
    last: LastTerms,
}

type Table = Arc<Keyed<String, TokenBucket>>;

#[derive(Default)]
struct Tables {
    by_terms: HashMap<Terms, usize>,
    all: Vec<Table>,
}

/// How many different terms there are at most.
const MOST: usize = 1024;

impl Parametric {
    /// Buckets on `clock`, for at most `most_keys` keys of each terms.
    #[must_use]
    pub fn new(clock: Clock, most_keys: usize) -> Self {
        Self {
            clock,
            most_keys: most_keys.max(1),
            tables: RwLock::default(),
            last: LastTerms::new(most_keys),
        }
    }

    /// Takes `cost` for `key` by these terms, and says what is left; or refuses. A cost of 0 takes nothing.
    ///
    /// # Errors
    ///
    /// If there can be no bucket with these terms.
    pub fn take(
        &self,
        key: &str,
        terms: Terms,
        cost: u64,
    ) -> Result<Result<Standing, Denied>, InvalidLimit> {
        let Some(table) = self.table(key, terms)? else {
            return Ok(Err(Denied::new(Reason::KeysFull)));
        };
        let taken = match cost {
            0 => table.estimate(key, 0),
            cost => table.try_acquire(key, cost).map(drop),
        };
        Ok(taken.map(|()| table.standing(key)))
    }

    /// Charges `cost` after the fact, in full.
    ///
    /// # Errors
    ///
    /// If there can be no bucket with these terms.
    pub fn charge(&self, key: &str, terms: Terms, cost: u64) -> Result<(), InvalidLimit> {
        if let Some(table) = self.table(key, terms)? {
            table.charge(key, cost);
        }
        Ok(())
    }

    /// How much of a key is left by these terms.
    ///
    /// # Errors
    ///
    /// If there can be no bucket with these terms.
    pub fn standing(&self, key: &str, terms: Terms) -> Result<Option<Standing>, InvalidLimit> {
        Ok(self.table(key, terms)?.map(|table| table.standing(key)))
    }

    /// The table of these terms, with what the key has used by others.
    fn table(&self, key: &str, terms: Terms) -> Result<Option<Table>, InvalidLimit> {
        let Some((index, table)) = self.find(terms)? else {
            return Ok(None);
        };
        if let Some(before) = self.last.note(key, index) {
            self.carry(key, before, &table);
        }
        Ok(Some(table))
    }

    fn find(&self, terms: Terms) -> Result<Option<(usize, Table)>, InvalidLimit> {
        let known = |tables: &Tables| {
            let index = *tables.by_terms.get(&terms)?;
            Some((index, Arc::clone(&tables.all[index])))
        };
        let found = known(&self.tables.read().unwrap_or_else(PoisonError::into_inner));
        if found.is_some() {
            return Ok(found);
        }
        let rule = terms.rule()?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known(&tables) {
            return Ok(Some(found));
        }
        if tables.all.len() >= MOST {
            return Ok(None);
        }
        let table = Keyed::builder(rule).clock(self.clock.clone());
        let table = Arc::new(table.max_keys(self.most_keys).build());
        let index = tables.all.len();
        tables.by_terms.insert(terms, index);
        tables.all.push(Arc::clone(&table));
        Ok(Some((index, table)))
    }

    /// A key is asked by other terms than before: what it has used stays used.
    #[cold]
    fn carry(&self, key: &str, before: usize, to: &Table) {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = tables.all.get(before) else {
            return;
        };
        let used = |table: &Table| {
            let standing = table.standing(key);
            standing
                .limit
                .saturating_sub(standing.remaining.unwrap_or(standing.limit))
        };
        let more = used(from).saturating_sub(used(to));
        if more > 0 {
            to.charge(key, more);
        }
    }
}

impl std::fmt::Debug for Parametric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parametric").finish_non_exhaustive()
    }
}
