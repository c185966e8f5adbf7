//! Forgetting states that equal that of a new key.

use std::hash::{BuildHasher, Hash};

use super::segment::Entry;
use super::table::Table;
use super::wide::{LOOK_AGAIN, What, Wide, place, store};
use crate::{Moment, Packed, Rule};

/// Which part of a table is looked at.
#[derive(Clone, Copy)]
enum Part {
    /// The next segments, with so many slots together.
    Next(usize),
    /// The segment of this tag.
    Of(u32),
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// Forgets every state that equals that of a new key, and refreshes the words of the others. Returns how
    /// many were forgotten.
    pub(super) fn sweep(&mut self, hasher: &impl BuildHasher, now: Moment) -> usize {
        // In one go: words of two epochs cannot be distinguished.
        self.entries.start_round();
        self.seen_forgettable_from = Moment::NEVER;
        // All words are written anew, so no segment is passed over.
        self.noted_anywhere = true;
        let (_, forgotten) = self.sweep_some(usize::MAX, hasher, now);
        self.begin_epoch(now);
        forgotten
    }

    /// Sweeps segments with at least so many slots together, whose words must be good now unless it is all of them. Says whether
    /// that ends a round, and how many were forgotten.
    pub(super) fn sweep_some(
        &mut self,
        slots: usize,
        hasher: &impl BuildHasher,
        now: Moment,
    ) -> (bool, usize) {
        let (ended, forgotten) = self.forget(Part::Next(slots), hasher, now);
        if ended {
            self.evictable_from = self.seen_forgettable_from;
            self.seen_forgettable_from = Moment::NEVER;
            self.noted_anywhere = self.noted_in_round;
            self.noted_in_round = false;
            if self.free.len() == self.wide.len() && self.wide.capacity() > 16 {
                self.wide = Vec::new();
                self.free = Vec::new();
            }
        }
        (ended, forgotten)
    }

    /// Forgets what can be forgotten where a new key would make the table grow: where keys come and go, it need not. Returns how
    /// many were forgotten.
    #[inline]
    pub(super) fn make_room<Q: Hash + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        hasher: &impl BuildHasher,
        now: Moment,
    ) -> usize {
        // Words of two epochs cannot be distinguished.
        if now < self.evictable_from || self.is_stale(now) {
            return 0;
        }
        let full = self.entries.full(hash, key);
        full.map_or(0, |tag| self.forget(Part::Of(tag), hasher, now).1)
    }

    /// Says whether that ends a round, and how many were forgotten.
    fn forget(&mut self, part: Part, hasher: &impl BuildHasher, now: Moment) -> (bool, usize) {
        let near = self.reference(now);
        let before = self.entries.len();
        let Self {
            rule,
            entries,
            wide,
            free,
            seen_forgettable_from,
            noted_anywhere,
            ..
        } = self;
        let pass_over = (!*noted_anywhere).then_some(now);
        let mut gone = Vec::new();
        let keep = |entry: &mut Entry<K>| {
            let from =
                match place(entry.word.get()) {
                    None => {
                        let state = R::Fast::unpack(rule, entry.word.get(), near);
                        let from = rule.evictable_from(&state, now);
                        let from = from.unwrap_or(now.plus(LOOK_AGAIN));
                        if from <= now {
                            return None;
                        }
                        let word = R::Fast::pack(rule, &state, now);
                        entry.word.set(word.unwrap_or_else(|| {
                            store(wide, free, Wide::new(What::State(state), now))
                        }));
                        from
                    }
                    Some(place) => {
                        let known = wide[place].as_ref();
                        let from = known.map_or(now, |wide| wide.evictable_from(rule, now));
                        if from <= now {
                            gone.push(place);
                            return None;
                        }
                        from
                    }
                };
            Some(from)
        };
        let (ended, earliest) = match part {
            Part::Next(slots) => entries.look_around(slots, pass_over, hasher, keep),
            Part::Of(tag) => (false, entries.make_room(tag, hasher, keep)),
        };
        *seen_forgettable_from = (*seen_forgettable_from).min(earliest);
        for place in gone {
            wide[place] = None;
            free.push(place);
        }
        let forgotten = before - self.entries.len();
        if forgotten > 0 {
            self.forgot_at = self.forgot_at.max(now);
        }
        (ended, forgotten)
    }
}
