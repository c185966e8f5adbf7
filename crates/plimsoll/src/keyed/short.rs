//! The fast path: for a key with a state in a word that is valid now, or a new key.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

use super::segment::Entry;
use super::shared::Shared;
use super::table::Table;
use super::wide::LOOK_AGAIN;
use super::word::Word;
use crate::{Denied, Moment, Packed, PackedTake, Refusal, Rule, Standing};

/// The result of the fast path for a known key.
enum Short {
    /// Granted; this is the new word.
    Taken(u64),
    Left(Left),
}

/// A demand that the fast path does not grant.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// A cost of 1 is refused, by a rule with this limit.
    Refused(Refusal, u64),
    /// The slow path decides.
    Open,
}

/// What is left to do after the fast path.
pub(super) enum Open {
    /// Nothing.
    Refused(Denied),
    /// The slow path decides.
    At(Asked),
}

/// The moment at which a demand is decided.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) now: Moment,
    /// Whether it is a cheap reading of the clock, which may be late.
    pub(super) late: bool,
}

impl Asked {
    /// A moment from a reading that is not late.
    pub(super) fn at(now: Moment) -> Self {
        Self { now, late: false }
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    pub(super) fn late_now(&self) -> Asked {
        Asked {
            now: self.gates.clock.now(),
            late: true,
        }
    }

    /// Takes on the fast path, for a known or new key; returns the moment of the grant. `None` decides nothing.
    #[inline]
    pub(super) fn take_short<Q>(&self, key: &Q, cost: u64) -> Option<Moment>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        self.short(key, self.gates.clock.now(), cost).ok()
    }

    /// The same for a caller that is refused if too little is available.
    #[inline]
    pub(super) fn try_short<Q>(&self, key: &Q, cost: u64) -> Result<Moment, Open>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let now = self.gates.clock.now();
        let taken = self.short(key, now, cost);
        taken.map_err(|left| self.left(now, left))
    }

    /// Returns what is left to do when nothing was granted at `now`.
    #[inline(always)]
    pub(super) fn left(&self, now: Moment, left: Left) -> Open {
        let Left::Refused(refusal, limit) = left else {
            return Open::At(Asked { now, late: true });
        };
        match self.gates.clock.refine(now, refusal.ready_at) {
            Some(precise) if precise >= refusal.ready_at => Open::At(Asked::at(precise)),
            precise => {
                let now = precise.unwrap_or(now);
                // If a cost of 1 is refused, nothing is available.
                let denied = Denied::from_rule(refusal, now, (limit, 0), self.gates.name);
                Open::Refused(denied)
            }
        }
    }

    /// Takes on the fast path; returns the moment of the grant.
    #[inline(always)]
    pub(super) fn short<Q>(&self, key: &Q, now: Moment, cost: u64) -> Result<Moment, Left>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let (shard, hash) = self.locate(key);
        if !self.is_swept(now) || cost == 0 {
            return Err(Left::Open);
        }
        let mut table = self.shards[shard].lock();
        if !table.is_open(now) {
            return Err(Left::Open);
        }
        // Each arm releases the lock by itself, so that no result has to be stored across the release.
        match table.take_short(hash, key, now, cost) {
            Some(Short::Taken(_)) => {
                drop(table);
                Ok(now)
            }
            Some(Short::Left(left)) => {
                drop(table);
                Err(left)
            }
            None => {
                let inserted = self.insert_short(&mut table, hash, key, now, cost);
                inserted.map_or(Err(Left::Open), |(at, _)| Ok(at))
            }
        }
    }

    /// Whether no sweep is due before the decision.
    #[inline(always)]
    fn is_swept(&self, now: Moment) -> bool {
        now.as_nanos() < self.next_sweep.load(Ordering::Relaxed)
    }

    /// Takes as [`take_short`](Self::take_short) does, and returns the standing of the key after that. If the key is
    /// not known, returns the moment.
    #[inline]
    pub(super) fn take_seen<Q>(&self, key: &Q, cost: u64) -> Result<Standing, Option<Asked>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.gates.clock.now();
        let (shard, hash) = self.locate(key);
        if !self.is_swept(now) || cost == 0 {
            return Err(None);
        }
        let mut table = self.shards[shard].lock();
        if !table.is_open(now) {
            return Err(None);
        }
        let word = match table.take_short(hash, key, now, cost) {
            Some(Short::Taken(word)) => word,
            Some(Short::Left(_)) => return Err(None),
            None => return Err(Some(Asked { now, late: true })),
        };
        let state = R::Fast::unpack(&table.rule, word, now);
        // A late reading may precede an earlier grant; the remainder would then be a token too low.
        let now = self.gates.clock.precise_now().max(now);
        Ok(Standing::of(&*table.rule, &state, now))
    }

    /// Inserts an unknown key and takes from it, if there is room and its state is a word and nothing else; returns the
    /// moment of the grant, and the word.
    #[inline(never)]
    pub(super) fn insert_short<Q>(
        &self,
        table: &mut Table<K, R>,
        hash: u64,
        key: &Q,
        now: Moment,
        cost: u64,
    ) -> Option<(Moment, u64)>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let rule = &*table.rule;
        if R::RETURNS_PERMITS || !table.inserts_words() || cost > rule.limit() {
            return None;
        }
        // A thread may have read the clock before the key was forgotten, but decides after that.
        let now = now.max(table.forgot_at);
        let mut state = rule.fresh_key(now);
        rule.take(&mut state, now, cost).ok()?;
        let word = R::Fast::pack(rule, &state, now)?;
        let taken = rule.recorded_at(&state, now);
        let from = rule.evictable_from(&state, now);
        // Made before anything is changed: it may panic.
        let owned = K::from(key.to_owned());
        let place = self.claim_place()?;
        self.make_room(table, hash, &owned, now);
        let entry = Entry {
            key: owned,
            word: Word::new(word),
        };
        table.entries.insert(hash, entry, &self.hasher);
        place.keep();
        self.note_from(table, hash, key, from.unwrap_or(now.plus(LOOK_AGAIN)));
        Some((taken, word))
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// Whether the fast path may decide.
    #[inline(always)]
    fn is_open(&self, now: Moment) -> bool {
        now.as_nanos().wrapping_sub(self.begins) < self.short_lasts
    }

    /// Takes for a known key with a state in a word that is valid now.
    #[inline(always)]
    fn take_short<Q: Hash + Eq + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        now: Moment,
        cost: u64,
    ) -> Option<Short>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.find(hash, key)?;
        let Some(word) = entry.word.state() else {
            return Some(Short::Left(Left::Open));
        };
        Some(match R::Fast::take_packed(&self.rule, word, now, cost) {
            PackedTake::Taken(next) => {
                entry.word.set_state(next);
                Short::Taken(next)
            }
            PackedTake::Refused(refusal) if cost == 1 => {
                Short::Left(Left::Refused(refusal, self.rule.limit()))
            }
            _ => Short::Left(Left::Open),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::{Concurrency, FixedWindow, Keyed, ManualClock, Quota, Rule, TokenBucket};

    /// The number of demands for which one step was enough, and of all demands.
    fn one_step_equals_two<R: Rule + Clone>(rule: &R) -> (u32, u32) {
        let time = ManualClock::new();
        let keyed =
            || -> Keyed<String, R> { Keyed::builder(rule.clone()).clock(time.clock()).build() };
        let (one, two) = (keyed(), keyed());
        let (mut short, mut all) = (0, 0);
        for step in 0_u64..2000 {
            // The first of each tick may sweep.
            if step % 10 == 0 {
                time.advance(Duration::from_micros(step * 7919 % 40_000));
            }
            let (key, cost) = (format!("{}", step % 5), step % 4);
            let standing = one.take_now(key.as_str(), cost);
            short += u32::from(standing.is_some());
            all += 1;
            let in_steps = |keyed: &Keyed<String, R>| {
                let taken = keyed.try_acquire(key.as_str(), cost);
                taken.map(|_| keyed.standing(key.as_str()))
            };
            let standing = standing.map_or_else(|| in_steps(&one), Ok);
            assert_eq!(standing, in_steps(&two), "{step}");
        }
        let totals = |keyed: &Keyed<String, R>| {
            let seen = keyed.snapshot();
            (seen.granted_total(), seen.denied_total(), seen.in_use())
        };
        assert_eq!(totals(&one), totals(&two));
        (short, all)
    }

    #[test]
    fn what_is_taken_in_one_step_is_what_is_taken_in_two() {
        let (short, all) = one_step_equals_two(&TokenBucket::per_second(100));
        assert!(short * 3 > all, "{short} of {all}");
        let (short, all) = one_step_equals_two(&FixedWindow::new(Quota::per_second(100)));
        assert!(short * 3 > all, "{short} of {all}");
        // Permits that are returned are held by the caller, so the fast path does not apply.
        assert_eq!(one_step_equals_two(&Concurrency::new(3)).0, 0);
    }
}
