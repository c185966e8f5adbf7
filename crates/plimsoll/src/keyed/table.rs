//! One shard of a keyed limiter.
//!
//! An entry is a key and a word. As in a gate, the word holds the state of the key if that fits, which for a
//! token bucket is all there is; otherwise it says where in a list beside the table the rest is kept: a larger
//! state, or a whole gate for a key that somebody waits for or that has limits of its own.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::wide::{What, Wide, place, store};
use crate::{Gate, Moment, Rule, Short};

pub(super) struct Table<K, R: Rule> {
    pub(super) rule: Arc<R>,
    entries: HashTable<Entry<K>>,
    /// Hashes once more, by a hash that is slow but that nobody can find collisions of, when there were
    /// more of them than by chance.
    salt: Option<RandomState>,
    wide: Vec<Option<Wide<R>>>,
    free: Vec<usize>,
    /// Whether states may be kept as words. Where the least recently used is evicted they are not: a word has
    /// no room for when it was used.
    compact: bool,
    /// When the epoch began for which the words are good, and how long it lasts.
    begins: u64,
    lasts: u64,
    /// Before this moment nothing here can be forgotten.
    pub(super) forgettable_from: Moment,
}

struct Entry<K> {
    key: K,
    word: u64,
}

impl<K: Hash> Entry<K> {
    fn hash(&self, salt: Option<&RandomState>, hasher: &impl BuildHasher) -> u64 {
        match salt {
            Some(salt) => salt.hash_one(&self.key),
            None => hasher.hash_one(&self.key),
        }
    }
}

/// So many keys that look alike to a table do not come together by chance: each does with one in 128 of
/// those it meets on its way, and it meets few.
const COLLISIONS: usize = 16;

/// Where the state of a key is.
pub(super) enum Found<'a, R: Rule> {
    Word(&'a R, &'a mut u64),
    Wide(&'a R, &'a mut Wide<R>),
}

impl<K, R: Rule> Table<K, R> {
    pub(super) fn new(rule: Arc<R>, compact: bool, now: Moment) -> Self {
        let mut table = Self {
            rule,
            entries: HashTable::new(),
            salt: None,
            wide: Vec::new(),
            free: Vec::new(),
            compact,
            begins: 0,
            lasts: 0,
            forgettable_from: Moment::NEVER,
        };
        table.begin_epoch(now);
        table
    }

    /// From now on words are good for the epoch of `now`.
    fn begin_epoch(&mut self, now: Moment) {
        let bits = self.rule.epoch_bits().min(63);
        self.begins = now.as_nanos() >> bits << bits;
        self.lasts = 1 << bits;
    }

    /// A moment near which all words are good.
    fn reference(&self, now: Moment) -> Moment {
        if self.is_stale(now) {
            Moment::from_nanos(self.begins)
        } else {
            now
        }
    }

    /// Whether the words are of another epoch.
    #[inline]
    pub(super) fn is_stale(&self, now: Moment) -> bool {
        now.as_nanos().wrapping_sub(self.begins) >= self.lasts
    }

    /// Keeps a state, as a word if it fits one.
    fn keep(&mut self, state: R::State, now: Moment) -> u64 {
        let from = self.rule.forgettable_from(&state, now).unwrap_or(now);
        self.forgettable_from = self.forgettable_from.min(from);
        let word = if self.compact && !R::GIVES_BACK {
            self.rule.pack(&state, now)
        } else {
            None
        };
        word.unwrap_or_else(|| self.keep_wide(What::State(state), now))
    }

    fn keep_wide(&mut self, what: What<R>, now: Moment) -> u64 {
        store(&mut self.wide, &mut self.free, Wide { what, used: now })
    }

    fn state_of(&self, word: u64, near: Moment) -> R::State {
        self.rule.unpack(word, near)
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// The state of a key.
    #[inline]
    pub(super) fn find<Q: Hash + Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> Option<Found<'_, R>>
    where
        K: Borrow<Q>,
    {
        let hash = self.spread(hash, key);
        let entry = self
            .entries
            .find_mut(hash, |entry| entry.key.borrow() == key)?;
        let rule = &*self.rule;
        match place(entry.word) {
            None => Some(Found::Word(rule, &mut entry.word)),
            Some(place) => {
                let wide = self.wide.get_mut(place)?.as_mut()?;
                Some(Found::Wide(rule, wide))
            }
        }
    }

    /// Takes for a key whose state is a word that is good now.
    #[inline(always)]
    pub(super) fn take_short<Q: Hash + Eq + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        now: Moment,
        cost: u32,
    ) -> bool
    where
        K: Borrow<Q>,
    {
        if self.is_stale(now) {
            return false;
        }
        let hash = self.spread(hash, key);
        let found = self
            .entries
            .find_mut(hash, |entry| entry.key.borrow() == key);
        let Some(entry) = found.filter(|entry| place(entry.word).is_none()) else {
            return false;
        };
        let short = self.rule.take_short(entry.word, now, cost);
        if let Short::Taken(next) = short {
            entry.word = next;
        }
        matches!(short, Short::Taken(_))
    }

    /// The state of a new key.
    pub(super) fn insert(
        &mut self,
        hasher: &impl BuildHasher,
        hash: u64,
        key: K,
        what: What<R>,
        now: Moment,
    ) {
        let word = match what {
            What::State(state) => self.keep(state, now),
            gate @ What::Gate { .. } => {
                self.forgettable_from = self.forgettable_from.min(now);
                self.keep_wide(gate, now)
            }
        };
        if self.salt.is_none() && self.entries.iter_hash(hash).nth(COLLISIONS).is_some() {
            self.add_salt();
        }
        let hash = self.spread(hash, &key);
        let salt = self.salt.as_ref();
        self.entries
            .insert_unique(hash, Entry { key, word }, |entry| entry.hash(salt, hasher));
    }

    /// The hash by which a key is found here.
    #[inline]
    fn spread<Q: Hash + ?Sized>(&self, hash: u64, key: &Q) -> u64 {
        match &self.salt {
            None => hash,
            Some(salt) => salt.hash_one(key),
        }
    }

    #[cold]
    fn add_salt(&mut self) {
        let salt = RandomState::new();
        // Hashed before anything is moved: it may panic.
        let hashes: Vec<u64> = self
            .entries
            .iter()
            .map(|entry| salt.hash_one(&entry.key))
            .collect();
        let mut salted = HashTable::with_capacity(self.entries.len() + 1);
        for (hash, entry) in hashes.into_iter().zip(self.entries.drain()) {
            salted.insert_unique(hash, entry, |entry| salt.hash_one(&entry.key));
        }
        self.entries = salted;
        self.salt = Some(salt);
    }

    /// Moves the state of a key out of its word.
    pub(super) fn widen<Q: Hash + Eq + ?Sized>(&mut self, hash: u64, key: &Q, now: Moment)
    where
        K: Borrow<Q>,
    {
        let Some(Found::Word(rule, word)) = self.find(hash, key) else {
            return;
        };
        let state = rule.unpack(*word, now);
        let elsewhere = self.keep_wide(What::State(state), now);
        if let Some(Found::Word(_, word)) = self.find(hash, key) {
            *word = elsewhere;
        }
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let hash = self.spread(hash, key);
        let Ok(entry) = self
            .entries
            .find_entry(hash, |entry| entry.key.borrow() == key)
        else {
            return false;
        };
        let (entry, _) = entry.remove();
        self.release(entry.word);
        true
    }

    fn release(&mut self, word: u64) -> Option<Wide<R>> {
        let place = place(word)?;
        self.free.push(place);
        self.wide[place].take()
    }

    /// Forgets every state that is no worse than a new one, and refreshes the words of the others. Returns how
    /// many were forgotten.
    pub(super) fn sweep(&mut self, hasher: &impl BuildHasher, now: Moment) -> usize {
        let near = self.reference(now);
        let before = self.entries.len();
        let mut earliest = Moment::NEVER;
        let Self {
            rule,
            entries,
            wide,
            free,
            ..
        } = self;
        entries.retain(|entry| {
            let from = match place(entry.word) {
                None => {
                    let state = rule.unpack(entry.word, near);
                    let from = rule.forgettable_from(&state, now);
                    entry.word = rule.pack(&state, now).unwrap_or_else(|| {
                        let what = What::State(state);
                        store(wide, free, Wide { what, used: now })
                    });
                    from
                }
                Some(place) => wide[place]
                    .as_ref()
                    .and_then(|wide| wide.forgettable_from(rule, now)),
            };
            let from = from.unwrap_or(Moment::NEVER);
            if from <= now {
                if let Some(place) = place(entry.word) {
                    wide[place] = None;
                    free.push(place);
                }
                return false;
            }
            earliest = earliest.min(from);
            true
        });
        self.forgettable_from = earliest;
        self.begin_epoch(now);
        self.shrink(hasher);
        before - self.entries.len()
    }

    /// Gives memory back when most of it is not needed.
    fn shrink(&mut self, hasher: &impl BuildHasher) {
        let len = self.entries.len();
        if self.entries.capacity() > 16 && len < self.entries.capacity() / 4 {
            let salt = self.salt.as_ref();
            self.entries
                .shrink_to(len * 2, |entry| entry.hash(salt, hasher));
        }
        if self.free.len() == self.wide.len() && self.wide.capacity() > 16 {
            self.wide = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Forgets the state that was used longest ago, unless its key has limits of its own or is in use.
    pub(super) fn evict_least_recent(&mut self, hasher: &impl BuildHasher) -> bool {
        let oldest = self.entries.iter().filter_map(|entry| {
            let wide = self.wide[place(entry.word)?].as_ref()?;
            wide.is_evictable().then(|| {
                (
                    wide.used,
                    entry.hash(self.salt.as_ref(), hasher),
                    entry.word,
                )
            })
        });
        let Some((_, hash, word)) = oldest.min_by_key(|(used, ..)| *used) else {
            return false;
        };
        if let Ok(entry) = self.entries.find_entry(hash, |entry| entry.word == word) {
            entry.remove();
            self.release(word);
        }
        true
    }

    /// Calls `see` with every key and its state or gate.
    pub(super) fn each(&self, now: Moment, mut see: impl FnMut(&K, View<'_, R>)) {
        let near = self.reference(now);
        for entry in &self.entries {
            match place(entry.word) {
                None => see(&entry.key, View::State(&self.state_of(entry.word, near))),
                Some(place) => match self.wide[place].as_ref().map(|wide| &wide.what) {
                    Some(What::State(state)) => see(&entry.key, View::State(state)),
                    Some(What::Gate { gate, .. }) => see(&entry.key, View::Gate(gate)),
                    None => {}
                },
            }
        }
    }

    /// Goes on by another rule; limits of single keys stay as they are. Returns the gates, which are still to
    /// be changed.
    pub(super) fn replace(
        &mut self,
        rule: &Arc<R>,
        now: Moment,
        carry: crate::Carry,
    ) -> Vec<Gate<R>> {
        let mut gates = Vec::new();
        let near = self.reference(now);
        let old = std::mem::replace(&mut self.rule, Arc::clone(rule));
        self.begin_epoch(now);
        self.forgettable_from = now;
        let mut entries = std::mem::take(&mut self.entries);
        for entry in entries.iter_mut() {
            if let Some(place) = place(entry.word) {
                match self.wide[place].as_mut().map(|wide| &mut wide.what) {
                    Some(What::State(state)) => *state = rule.adopt(&old, state, now, carry),
                    Some(What::Gate {
                        gate,
                        pinned: false,
                    }) => {
                        gates.push(gate.clone());
                    }
                    _ => {}
                }
            } else {
                let state = rule.adopt(&old, &old.unpack(entry.word, near), now, carry);
                entry.word = self.keep(state, now);
            }
        }
        self.entries = entries;
        gates
    }
}

/// What is known of a key.
pub(super) enum View<'a, R: Rule> {
    State(&'a R::State),
    Gate(&'a Gate<R>),
}
