//! Limits whose terms come with the ask.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use compact_str::CompactString;
use plimsoll::rate::Filling;
use plimsoll::{
    Clock, Denied, InvalidLimit, Keyed, KeyedBuilder, Moment, Quota, Reason, Standing, TokenBucket,
};
use serde::{Deserialize, Serialize};

use crate::terms::LastTerms;

/// The terms of a token bucket that come with an ask: `refill` tokens in each `every`, and at most `burst` saved up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
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
    /// The tables of the first terms, found without a lock and a hash: most servers are asked by few.
    first: [OnceLock<(Terms, Table)>; 4],
    last: LastTerms,
}

type Table = Keyed<CompactString, TokenBucket>;

/// One thing that [`Parametric`] remembers. [`Parametric::save`] shows them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SavedBucket {
    /// Terms by which keys were asked, which follow.
    Terms {
        /// The terms.
        terms: Terms,
        /// From when on refills are counted.
        began: Moment,
    },
    /// A key of the terms that were named last, and that it was asked by last.
    Bucket(String, Filling),
    /// A key of the terms that were named last, which was asked by others since.
    Before(String, Filling),
}

#[derive(Default)]
struct Tables {
    by_terms: HashMap<Terms, usize>,
    all: Vec<Table>,
}

/// The number of no terms: a key that was asked by such last has used nothing that is carried over.
const NO_TABLE: u64 = u64::MAX;

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
            first: Default::default(),
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
        if let Some(standing) = table.take_now(key, cost) {
            return Ok(Ok(standing));
        }
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
    fn table(&self, key: &str, terms: Terms) -> Result<Option<Cow<'_, Table>>, InvalidLimit> {
        let Some((index, table)) = self.find(terms)? else {
            return Ok(None);
        };
        let before = self.last.note(key, index as u64);
        if let Some(before) = before.and_then(|before| usize::try_from(before).ok()) {
            self.carry(key, before, &table);
        }
        Ok(Some(table))
    }

    /// Shows what is remembered, so that another process can go on from there. It visits every key, a part of them behind a
    /// lock at a time.
    ///
    /// # Errors
    ///
    /// What `see` fails with.
    pub fn save<E>(&self, mut see: impl FnMut(SavedBucket) -> Result<(), E>) -> Result<(), E> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut tables: Vec<_> = tables
            .by_terms
            .iter()
            .map(|(terms, index)| (*terms, *index as u64, tables.all[*index].clone()))
            .collect();
        // The first terms stay the first: keys of which nothing else is known have them.
        tables.sort_by_key(|(_, index, _)| *index);
        for (terms, index, table) in tables {
            let began = table.began();
            see(SavedBucket::Terms { terms, began })?;
            for part in 0..table.parts() {
                let mut keys = Vec::new();
                table.kept(part, |key, filling| {
                    let saved = match self.last.get(key) == index {
                        true => SavedBucket::Bucket,
                        false => SavedBucket::Before,
                    };
                    keys.push(saved(key.to_string(), *filling));
                });
                keys.into_iter().try_for_each(&mut see)?;
            }
        }
        Ok(())
    }

    /// Puts what was [saved](Self::save) in its place, one thing after the other, each with the terms that came before it.
    /// Returns the terms for the next, and whether there was room.
    #[must_use]
    pub fn restore(&self, last: Option<Terms>, saved: SavedBucket) -> (Option<Terms>, bool) {
        let was_last = matches!(saved, SavedBucket::Bucket(..));
        match saved {
            SavedBucket::Terms { terms, began } => {
                let found = self.find_since(terms, Some(began));
                let found = matches!(found, Ok(Some(_)));
                (found.then_some(terms), found)
            }
            SavedBucket::Bucket(key, filling) | SavedBucket::Before(key, filling) => {
                let table = last.and_then(|terms| self.find(terms).ok().flatten());
                let restored = table.is_some_and(|(index, table)| {
                    if was_last {
                        self.last.note(&key, index as u64);
                    } else if index == 0 {
                        // The last terms follow, or are those of a bucket that is full again and was not saved.
                        self.last.note(&key, NO_TABLE);
                    }
                    table.restore(key.as_str(), |_, _| filling).is_ok()
                });
                (last, restored)
            }
        }
    }

    fn find(&self, terms: Terms) -> Result<Option<(usize, Cow<'_, Table>)>, InvalidLimit> {
        for (index, known) in self.first.iter().enumerate() {
            match known.get() {
                Some((known, table)) if *known == terms => {
                    return Ok(Some((index, Cow::Borrowed(table))));
                }
                Some(_) => {}
                None => break,
            }
        }
        let found = self.find_since(terms, None)?;
        Ok(found.map(|(index, table)| (index, Cow::Owned(table))))
    }

    /// The table of these terms. One that is new goes on for one that began then.
    fn find_since(
        &self,
        terms: Terms,
        began: Option<Moment>,
    ) -> Result<Option<(usize, Table)>, InvalidLimit> {
        let known = |tables: &Tables| {
            let index = *tables.by_terms.get(&terms)?;
            Some((index, tables.all[index].clone()))
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
        let table = began.into_iter().fold(table, KeyedBuilder::began);
        let table = table.max_keys(self.most_keys).build();
        let index = tables.all.len();
        tables.by_terms.insert(terms, index);
        tables.all.push(table.clone());
        if let Some(first) = self.first.get(index) {
            // Its place is free: indices are given once.
            let _ = first.set((terms, table.clone()));
        }
        Ok(Some((index, table)))
    }

    /// A key is asked by other terms than before: what it has used stays used.
    #[cold]
    fn carry(&self, key: &str, before: usize, to: &Table) {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = tables.all.get(before) else {
            return;
        };
        let more = used(from, key).saturating_sub(used(to, key));
        if more > 0 {
            to.charge(key, more);
        }
    }
}

fn used(table: &Table, key: &str) -> u64 {
    let standing = table.standing(key);
    let left = standing.remaining.unwrap_or(standing.limit);
    standing.limit.saturating_sub(left)
}

impl std::fmt::Debug for Parametric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parametric").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::ManualClock;

    use super::*;

    #[test]
    fn buckets_go_on_in_another_process() {
        let time = ManualClock::new();
        time.advance(Duration::from_secs(7));
        let stays = Parametric::new(time.clock(), 100);
        let all = [(5, 3), (2, 7), (9, 1)]
            .map(|(burst, refill)| Terms::new(burst, refill, Duration::from_secs(2)));
        for (index, terms) in all.iter().enumerate() {
            for key in 0..5 {
                let cost = (index as u64 + key) % 3;
                assert!(stays.take(&format!("{index} {key}"), *terms, cost).is_ok());
            }
        }
        let mut text = Vec::new();
        let saved = stays.save(|it| serde_json::to_string(&it).map(|line| text.push(line)));
        saved.unwrap();
        time.advance(Duration::from_millis(300));
        let restored = Parametric::new(time.clock(), 100);
        let mut last = None;
        for line in text {
            let (next, done) = restored.restore(last, serde_json::from_str(&line).unwrap());
            assert!(done, "{line}");
            last = next;
        }
        for step in 0..40 {
            time.advance(Duration::from_millis(90));
            for (index, terms) in all.iter().enumerate() {
                let key = format!("{index} {}", step % 5);
                let answers = [&stays, &restored].map(|it| it.take(&key, *terms, 2).unwrap());
                assert_eq!(answers[0], answers[1], "{key}");
            }
        }
    }
}
