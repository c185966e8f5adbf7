//! The fast path: a key whose state is a word that is good now, or will be because the key is new.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

use super::shared::Shared;
use super::slots::Entry;
use super::table::Table;
use super::wide::{LOOK_AGAIN, place};
use crate::{Denied, Moment, Packed, PackedTake, Refusal, Rule};

/// What the fast path came to.
enum Short {
    Taken,
    /// A cost of 1 is refused, by a rule with this limit.
    Refused(Refusal, u64),
    /// The key is not known.
    New,
    /// The slow path decides.
    Open,
}

/// What the fast path leaves.
pub(super) enum Open {
    /// Nothing.
    Refused(Denied),
    /// To decide, in another way.
    At(Asked),
}

/// When a demand is decided.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) now: Moment,
    /// Whether that is the cheap reading of the clock, which may be late.
    pub(super) late: bool,
    /// Whether the key was not known a moment ago.
    pub(super) new: bool,
}

impl Asked {
    /// By a reading that is not late.
    pub(super) fn at(now: Moment) -> Self {
        Self {
            now,
            late: false,
            new: false,
        }
    }

    pub(super) fn precisely(self, now: Moment) -> Self {
        Self {
            now,
            late: false,
            ..self
        }
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    pub(super) fn late_now(&self) -> Asked {
        Asked {
            now: self.gates.clock.now(),
            late: true,
            new: false,
        }
    }

    /// Takes for a key whose state is a word, if that is all there is to do; says when.
    #[inline]
    pub(super) fn take_short<Q>(&self, key: &Q, cost: u64) -> Option<Moment>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.gates.clock.now();
        matches!(self.short(key, now, cost), Short::Taken).then_some(now)
    }

    /// The same for a caller that is refused if there is not enough.
    #[inline]
    pub(super) fn try_short<Q>(&self, key: &Q, cost: u64) -> Result<Moment, Open>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.gates.clock.now();
        let (late, new) = (true, false);
        match self.short(key, now, cost) {
            Short::Taken => Ok(now),
            Short::Open => Err(Open::At(Asked { now, late, new })),
            Short::New => Err(Open::At(Asked {
                now,
                late,
                new: true,
            })),
            Short::Refused(refusal, limit) => {
                let precise = self.gates.clock.refine(now, refusal.ready_at);
                match precise {
                    Some(precise) if precise >= refusal.ready_at => {
                        Err(Open::At(Asked::at(precise)))
                    }
                    precise => {
                        let now = precise.unwrap_or(now);
                        // If a cost of 1 is refused, nothing is available.
                        let denied = Denied::from_rule(refusal, now, (limit, 0), self.gates.name);
                        Err(Open::Refused(denied))
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn short<Q>(&self, key: &Q, now: Moment, cost: u64) -> Short
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (shard, hash) = self.locate(key);
        let is_swept = now.as_nanos() < self.next_sweep.load(Ordering::Relaxed);
        if !is_swept || cost == 0 {
            return Short::Open;
        }
        self.shards[shard].lock().take_short(hash, key, now, cost)
    }

    /// Inserts a key that is not known and takes from it, if there is room, its state is a word, and there is nothing to
    /// remember beside it; says when it was taken.
    pub(super) fn insert_short(
        &self,
        table: &mut Table<K, R>,
        hash: u64,
        owned: &mut Option<K>,
        now: Moment,
        cost: u64,
    ) -> Option<Moment> {
        let rule = &*table.rule;
        if owned.is_none() || !table.inserts_words() || cost > rule.limit() {
            return None;
        }
        let mut state = rule.fresh_key(now);
        rule.take(&mut state, now, cost).ok()?;
        let word = R::Fast::pack(rule, &state, now)?;
        let taken = rule.recorded_at(&state, now);
        let from = rule.evictable_from(&state, now);
        if !self.claim_place() {
            return None;
        }
        let key = owned.take()?;
        table
            .entries
            .insert(hash, Entry { key, word }, &self.hasher);
        self.note_from(table, from.unwrap_or(now.plus(LOOK_AGAIN)));
        Some(taken)
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// Takes for a key whose state is a word that is good now.
    #[inline(always)]
    fn take_short<Q: Hash + Eq + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        now: Moment,
        cost: u64,
    ) -> Short
    where
        K: Borrow<Q>,
    {
        if now.as_nanos().wrapping_sub(self.begins) >= self.short_lasts {
            return Short::Open;
        }
        let Some(entry) = self.entries.find(hash, key) else {
            return Short::New;
        };
        if place(entry.word).is_some() {
            return Short::Open;
        }
        match R::Fast::take_packed(&self.rule, entry.word, now, cost) {
            PackedTake::Taken(next) => {
                entry.word = next;
                Short::Taken
            }
            PackedTake::Refused(refusal) if cost == 1 => Short::Refused(refusal, self.rule.limit()),
            _ => Short::Open,
        }
    }
}
