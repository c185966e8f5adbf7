//! One shard of a keyed limiter.
//!
//! An entry is a key and a word. As in a gate, the word holds the state of the key if that fits, which for a
//! token bucket is all there is; otherwise it says where in a list beside the table the rest is kept: a larger
//! state, or a whole gate for a key that somebody waits for or that has limits of its own.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::{Gate, Moment, Rule};

/// Set in a word that says where to look.
const ELSEWHERE: u64 = 1 << 63;

pub(super) struct Table<K, R: Rule> {
    pub(super) rule: Arc<R>,
    entries: HashTable<Entry<K>>,
    wide: Vec<Option<Wide<R>>>,
    free: Vec<usize>,
    /// Whether states may be kept as words. Where the least recently used is evicted they are not: a word has
    /// no room for when it was used.
    compact: bool,
    /// The epoch for which the words are good.
    epoch: u64,
    /// Before this moment nothing here can be forgotten.
    pub(super) forgettable_from: Moment,
}

struct Entry<K> {
    key: K,
    word: u64,
}

pub(super) struct Wide<R: Rule> {
    pub(super) what: What<R>,
    pub(super) used: Moment,
}

pub(super) enum What<R: Rule> {
    State(R::State),
    /// A limiter of its own. One with limits of its own is never forgotten.
    Gate {
        gate: Gate<R>,
        pinned: bool,
    },
}

/// Where the state of a key is.
pub(super) enum Found<'a, R: Rule> {
    Word(&'a R, &'a mut u64),
    Wide(&'a R, &'a mut Wide<R>),
}

impl<K, R: Rule> Table<K, R> {
    pub(super) fn new(rule: Arc<R>, compact: bool, now: Moment) -> Self {
        let epoch = now.as_nanos() >> rule.epoch_bits().min(63);
        Self {
            rule,
            entries: HashTable::new(),
            wide: Vec::new(),
            free: Vec::new(),
            compact,
            epoch,
            forgettable_from: Moment::NEVER,
        }
    }

    /// A moment near which all words are good.
    fn reference(&self, now: Moment) -> Moment {
        let bits = self.rule.epoch_bits().min(63);
        if now.as_nanos() >> bits == self.epoch {
            now
        } else {
            Moment::from_nanos(self.epoch << bits)
        }
    }

    pub(super) fn is_stale(&self, now: Moment) -> bool {
        now.as_nanos() >> self.rule.epoch_bits().min(63) != self.epoch
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

/// Puts what does not fit a word beside the table; returns the word that says where.
fn store<R: Rule>(wide: &mut Vec<Option<Wide<R>>>, free: &mut Vec<usize>, one: Wide<R>) -> u64 {
    let place = free.pop().unwrap_or(wide.len());
    if place == wide.len() {
        wide.push(None);
    }
    wide[place] = Some(one);
    ELSEWHERE | place as u64
}

fn place(word: u64) -> Option<usize> {
    (word & ELSEWHERE != 0).then_some((word & !ELSEWHERE) as usize)
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// The state of a key.
    #[inline]
    pub(super) fn find<Q: Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> Option<Found<'_, R>>
    where
        K: Borrow<Q>,
    {
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
        let rehash = |entry: &Entry<K>| hasher.hash_one(&entry.key);
        self.entries
            .insert_unique(hash, Entry { key, word }, rehash);
    }

    /// Moves the state of a key out of its word.
    pub(super) fn widen<Q: Eq + ?Sized>(&mut self, hash: u64, key: &Q, now: Moment)
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

    pub(super) fn remove<Q: Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
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
        self.epoch = now.as_nanos() >> self.rule.epoch_bits().min(63);
        self.shrink(hasher);
        before - self.entries.len()
    }

    /// Gives memory back when most of it is not needed.
    fn shrink(&mut self, hasher: &impl BuildHasher) {
        let len = self.entries.len();
        if self.entries.capacity() > 16 && len < self.entries.capacity() / 4 {
            self.entries
                .shrink_to(len * 2, |entry| hasher.hash_one(&entry.key));
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
            wide.is_evictable()
                .then(|| (wide.used, hasher.hash_one(&entry.key), entry.word))
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
        self.epoch = now.as_nanos() >> self.rule.epoch_bits().min(63);
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

impl<R: Rule> Wide<R> {
    fn forgettable_from(&self, rule: &R, now: Moment) -> Option<Moment> {
        match &self.what {
            What::State(state) => rule.forgettable_from(state, now),
            What::Gate { pinned: true, .. } => None,
            What::Gate { gate, .. } => gate.forgettable_from(now),
        }
    }

    fn is_evictable(&self) -> bool {
        match &self.what {
            What::State(_) => true,
            What::Gate { gate, pinned } => !pinned && gate.is_alone(),
        }
    }
}
