//! Token buckets whose parameters come with each call.

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

/// The parameters of a token bucket: `refill` tokens in each `every`, and at most `burst` tokens saved up.
///
/// ```
/// use plimsoll_engine::BucketParams;
/// use std::time::Duration;
///
/// // 30 per minute, bursts of 15: `CL.THROTTLE key 14 30 60`.
/// let params = BucketParams::new(15, 30, Duration::from_secs(60));
/// assert_eq!((params.burst, params.refill), (15, 30));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BucketParams {
    /// The capacity: the most that is granted at once.
    pub burst: u64,
    /// The number of tokens that each period adds.
    pub refill: u64,
    /// The length of a period.
    pub every: Duration,
}

impl BucketParams {
    /// Creates parameters with these values. They are not checked here: the methods of [`Parametric`] return an error if
    /// they are invalid.
    /// Sets of parameters are compared by value: 60 per minute and 1 per second are different tables.
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

/// Token buckets by key, with parameters that come with each call, for `CL.THROTTLE` and for overrides of Envoy.
///
/// ```
/// use plimsoll::Clock;
/// use plimsoll_engine::{BucketParams, Parametric};
/// use std::time::Duration;
///
/// let buckets = Parametric::new(Clock::system(), 1_000_000);
/// let params = BucketParams::new(2, 1, Duration::from_secs(60));
/// assert!(buckets.take("anna", params, 2)?.is_ok());
/// assert!(buckets.take("anna", params, 1)?.is_err());
/// // Other parameters for the same key: its usage is carried over.
/// let more = BucketParams::new(5, 1, Duration::from_secs(60));
/// assert_eq!(buckets.take("anna", more, 1)?.unwrap().remaining, Some(2));
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// Each set of parameters has a table of keys of its own. Both are bounded: `max_keys` keys in each table, and 1,024 tables. A
/// call with further parameters is refused with [`KeysFull`](Reason::KeysFull).
pub struct Parametric {
    clock: Clock,
    max_keys: usize,
    tables: RwLock<Tables>,
    /// The first tables, found without a lock and a hash: most servers have few.
    first: [OnceLock<(BucketParams, Table)>; 4],
    last: LastTerms,
}

type Table = Keyed<CompactString, TokenBucket>;

/// One record of the saved state of [`Parametric`]. [`Parametric::save`] writes them in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SavedBucket {
    /// The parameters of the buckets that follow.
    #[serde(rename = "terms")]
    Params {
        /// The parameters.
        #[serde(rename = "terms")]
        params: BucketParams,
        /// The moment from which refills are counted.
        began: Moment,
    },
    /// A bucket with the parameters of the record before. They are the last parameters of its key.
    Bucket(String, Filling),
    /// A bucket with the parameters of the record before. Its key has been used with other parameters since.
    Before(String, Filling),
}

#[derive(Default)]
struct Tables {
    by_params: HashMap<BucketParams, usize>,
    all: Vec<Table>,
}

/// The number for "no table": a key whose last parameters have this number carries over no usage.
const NO_TABLE: u64 = u64::MAX;

/// The largest number of tables.
const MAX_TABLES: usize = 1024;

impl Parametric {
    /// Creates buckets on `clock`, with at most `max_keys` keys for each set of parameters.
    #[must_use]
    pub fn new(clock: Clock, max_keys: usize) -> Self {
        Self {
            clock,
            max_keys: max_keys.max(1),
            tables: RwLock::default(),
            first: Default::default(),
            last: LastTerms::new(max_keys),
        }
    }

    /// Takes `cost` from the bucket of `key` with these parameters. Returns its standing, or the refusal. A cost of 0 takes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the parameters are invalid.
    pub fn take(
        &self,
        key: &str,
        params: BucketParams,
        cost: u64,
    ) -> Result<Result<Standing, Denied>, InvalidLimit> {
        let Some(table) = self.table(key, params)? else {
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

    /// Charges `cost` after the fact, in full: an excess over the remainder becomes a debt.
    ///
    /// # Errors
    ///
    /// Returns an error if the parameters are invalid.
    pub fn charge(&self, key: &str, params: BucketParams, cost: u64) -> Result<(), InvalidLimit> {
        if let Some(table) = self.table(key, params)? {
            table.charge(key, cost);
        }
        Ok(())
    }

    /// Returns the standing of the bucket of `key` with these parameters, and takes nothing. `None` if there are too many different
    /// parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if the parameters are invalid.
    pub fn standing(
        &self,
        key: &str,
        params: BucketParams,
    ) -> Result<Option<Standing>, InvalidLimit> {
        Ok(self.table(key, params)?.map(|table| table.standing(key)))
    }

    /// The table of these parameters, after the usage of the key with others was carried over to it.
    fn table(
        &self,
        key: &str,
        params: BucketParams,
    ) -> Result<Option<Cow<'_, Table>>, InvalidLimit> {
        let Some((index, table)) = self.find(params)? else {
            return Ok(None);
        };
        let before = self.last.note(key, index as u64);
        if let Some(before) = before.and_then(|before| usize::try_from(before).ok()) {
            self.carry(key, before, &table);
        }
        Ok(Some(table))
    }

    /// Calls `see` with each record of the state, for [`restore`](Self::restore) in another process. Visits every key, locking
    /// one shard at a time.
    ///
    /// ```
    /// use plimsoll::Clock;
    /// use plimsoll_engine::{BucketParams, Parametric};
    /// use std::time::Duration;
    ///
    /// let params = BucketParams::new(2, 1, Duration::from_secs(60));
    /// let before = Parametric::new(Clock::system(), 1000);
    /// let _ = before.take("anna", params, 2)?;
    /// let mut saved = Vec::new();
    /// before.save(|record| Ok::<(), ()>(saved.push(record))).unwrap();
    ///
    /// let after = Parametric::new(Clock::system(), 1000);
    /// let mut last = None;
    /// for record in saved {
    ///     last = after.restore(last, record).0;
    /// }
    /// assert!(after.take("anna", params, 1)?.is_err());
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error of `see`, after which no more records follow.
    pub fn save<E>(&self, mut see: impl FnMut(SavedBucket) -> Result<(), E>) -> Result<(), E> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut tables: Vec<_> = tables
            .by_params
            .iter()
            .map(|(params, index)| (*params, *index as u64, tables.all[*index].clone()))
            .collect();
        // The first table stays the first: a key without last parameters belongs to it.
        tables.sort_by_key(|(_, index, _)| *index);
        for (params, index, table) in tables {
            let began = table.began();
            see(SavedBucket::Params { params, began })?;
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

    /// Restores one [saved](Self::save) record. `last` are the parameters that the call before returned. Returns the parameters
    /// for the next call, and whether there was room.
    #[must_use]
    pub fn restore(
        &self,
        last: Option<BucketParams>,
        saved: SavedBucket,
    ) -> (Option<BucketParams>, bool) {
        let was_last = matches!(saved, SavedBucket::Bucket(..));
        match saved {
            SavedBucket::Params { params, began } => {
                let found = self.find_since(params, Some(began));
                let found = matches!(found, Ok(Some(_)));
                (found.then_some(params), found)
            }
            SavedBucket::Bucket(key, filling) | SavedBucket::Before(key, filling) => {
                let table = last.and_then(|params| self.find(params).ok().flatten());
                let restored = table.is_some_and(|(index, table)| {
                    if was_last {
                        self.last.note(&key, index as u64);
                    } else if index == 0 {
                        // Its last parameters follow, or belong to a bucket that is full again and was not saved.
                        self.last.note(&key, NO_TABLE);
                    }
                    table.restore(key.as_str(), |_, _| filling).is_ok()
                });
                (last, restored)
            }
        }
    }

    fn find(&self, params: BucketParams) -> Result<Option<(usize, Cow<'_, Table>)>, InvalidLimit> {
        for (index, known) in self.first.iter().enumerate() {
            match known.get() {
                Some((known, table)) if *known == params => {
                    return Ok(Some((index, Cow::Borrowed(table))));
                }
                Some(_) => {}
                None => break,
            }
        }
        let found = self.find_since(params, None)?;
        Ok(found.map(|(index, table)| (index, Cow::Owned(table))))
    }

    /// The table of these parameters. A new one counts its refills from `began`.
    fn find_since(
        &self,
        params: BucketParams,
        began: Option<Moment>,
    ) -> Result<Option<(usize, Table)>, InvalidLimit> {
        let known = |tables: &Tables| {
            let index = *tables.by_params.get(&params)?;
            Some((index, tables.all[index].clone()))
        };
        let found = known(&self.tables.read().unwrap_or_else(PoisonError::into_inner));
        if found.is_some() {
            return Ok(found);
        }
        let rule = params.rule()?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known(&tables) {
            return Ok(Some(found));
        }
        if tables.all.len() >= MAX_TABLES {
            return Ok(None);
        }
        let table = Keyed::builder(rule).clock(self.clock.clone());
        let table = began.into_iter().fold(table, KeyedBuilder::began);
        let table = table.max_keys(self.max_keys).build();
        let index = tables.all.len();
        tables.by_params.insert(params, index);
        tables.all.push(table.clone());
        if let Some(first) = self.first.get(index) {
            // The cell is empty: each index is used once.
            let _ = first.set((params, table.clone()));
        }
        Ok(Some((index, table)))
    }

    /// Carries the usage of a key over from the table of its last parameters.
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
            .map(|(burst, refill)| BucketParams::new(burst, refill, Duration::from_secs(2)));
        for (index, params) in all.iter().enumerate() {
            for key in 0..5 {
                let cost = (index as u64 + key) % 3;
                assert!(stays.take(&format!("{index} {key}"), *params, cost).is_ok());
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
            for (index, params) in all.iter().enumerate() {
                let key = format!("{index} {}", step % 5);
                let answers = [&stays, &restored].map(|it| it.take(&key, *params, 2).unwrap());
                assert_eq!(answers[0], answers[1], "{key}");
            }
        }
    }
}
