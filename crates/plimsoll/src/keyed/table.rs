//! One shard of a keyed limiter.
//!
//! An entry is a key and a word. As in a gate, the word holds the state of the key if that fits, which for a
//! token bucket is all there is; otherwise it says where in a list beside the table the rest is kept: a larger
//! state, the state of a key that has a limit of its own, or a whole gate for a key that somebody waits for.
//!
//! Limits that single keys have of their own are kept apart from the states, so that a state can be forgotten
//! and the limit cannot.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::key_gate::{GateOfKey, KeySubscribers};
use super::segment::Entry;
use super::slots::Slots;
use super::starts::Starts;
use super::wide::{LOOK_AGAIN, What, Wide, place, store};
use super::word::Word;
use crate::gate::WeakGate;
use crate::{Clock, Moment, Packed, Rule};

/// What the fast path needs comes first, in a cache line that nobody writes while keys are only asked for. The lock is in
/// another: where two threads take it by turns, both keep what follows it, and begin to search while the lock is on its way.
#[repr(C, align(64))]
pub(super) struct Table<K, R: Rule> {
    /// When the epoch began for which the words are good, and for how long the fast path may decide by them: 0 when the
    /// table is closed.
    pub(super) begins: u64,
    pub(super) short_lasts: u64,
    pub(super) rule: Arc<R>,
    pub(super) entries: Slots<K>,
    /// How long the epoch lasts.
    lasts: u64,
    /// What was granted before which moments can no longer be undone.
    pub(super) starts: Starts,
    /// The rules of keys that have one of their own, whether there is a state of them or not.
    pub(super) own: HashMap<K, Arc<R>>,
    pub(super) wide: Vec<Option<Wide<R>>>,
    pub(super) free: Vec<usize>,
    /// Gates of keys that were forgotten by name, which somebody may still hold or wait in.
    pub(super) detached: Vec<WeakGate<R>>,
    /// While there are subscribers, a key that is asked has a gate.
    pub(super) heard: KeySubscribers<K, R>,
    /// Whether every demand is refused.
    pub(super) closed: bool,
    /// Whether that is for a while, and waiters stay.
    pub(super) paused: bool,
    /// Whether the settings allow states as words. They do not if the least recently used key is evicted: a word has no room for
    /// the time of the last use.
    has_words: bool,
    /// Whether states are kept as words. Not if words would be valid for an instant only, because all of them would have to be
    /// rewritten each time.
    compact: bool,
    /// Before this moment nothing here can be forgotten.
    pub(super) evictable_from: Moment,
    /// The latest moment at which anything was forgotten. Before it a new key is no longer known to be new.
    pub(super) forgot_at: Moment,
    /// The same of all that was seen or added in the present round of sweeping.
    pub(super) seen_forgettable_from: Moment,
    /// Whether something was noted without its key, so that it may be in any segment: before this round, or in it.
    pub(super) noted_anywhere: bool,
    pub(super) noted_in_round: bool,
    /// Counts keys that were found by callers who do not know the time.
    pub(super) untimed: u8,
}

/// The shortest epoch for which words are kept, about a second: when it ends, all of them are written anew.
const SHORTEST_EPOCH: u32 = 30;

/// Where the state of a key is.
pub(super) enum Found<'a, R: Rule> {
    Word(&'a R, &'a mut Word),
    Wide(&'a R, &'a mut Wide<R>),
}

impl<K, R: Rule> Table<K, R> {
    pub(super) fn new(rule: Arc<R>, has_words: bool, now: Moment) -> Self {
        let mut table = Self {
            rule,
            starts: Starts::default(),
            own: HashMap::new(),
            entries: Slots::new(),
            wide: Vec::new(),
            free: Vec::new(),
            detached: Vec::new(),
            heard: None,
            closed: false,
            paused: false,
            has_words,
            compact: has_words,
            begins: 0,
            lasts: 0,
            short_lasts: 0,
            evictable_from: Moment::NEVER,
            forgot_at: Moment::ORIGIN,
            seen_forgettable_from: Moment::NEVER,
            noted_anywhere: false,
            noted_in_round: false,
            untimed: 0,
        };
        table.begin_epoch(now);
        table
    }

    /// From now on words are good for the epoch of `now`. There must be none if the rule has changed.
    pub(super) fn begin_epoch(&mut self, now: Moment) {
        let bits = R::Fast::epoch_bits(&self.rule).min(63);
        self.compact = self.has_words && bits >= SHORTEST_EPOCH;
        let bits = if self.compact { bits } else { 63 };
        self.begins = now.as_nanos() >> bits << bits;
        self.lasts = 1 << bits;
        self.open_fast_path();
    }

    /// Lets the fast path decide, unless all is refused, somebody listens, or grants must say after which start they were made.
    pub(super) fn open_fast_path(&mut self) {
        let open = !self.closed && self.heard.is_none() && !self.starts.hold();
        self.short_lasts = if open { self.lasts } else { 0 };
    }

    /// A moment near which all words are good.
    pub(super) fn reference(&self, now: Moment) -> Moment {
        if self.is_stale(now) {
            Moment::from_nanos(self.begins)
        } else {
            now
        }
    }

    /// Whether there is anything to do for whoever sweeps.
    pub(super) fn is_to_be_swept(&self, now: Moment) -> bool {
        self.evictable_from <= now
    }

    /// Whether the words are of another epoch.
    #[inline]
    pub(super) fn is_stale(&self, now: Moment) -> bool {
        now.as_nanos().wrapping_sub(self.begins) >= self.lasts
    }

    /// Whether the state of a new key is a word, if it fits one, and all that is kept of it.
    pub(super) fn inserts_words(&self) -> bool {
        self.compact && self.own.is_empty() && !self.starts.number_new_keys()
    }

    /// Keeps a state, as a word if it fits one.
    pub(super) fn keep(&mut self, state: R::State, now: Moment) -> u64 {
        let word = if self.compact && !R::RETURNS_PERMITS {
            R::Fast::pack(&self.rule, &state, now)
        } else {
            None
        };
        word.unwrap_or_else(|| self.keep_wide(Wide::new(What::State(state), now)))
    }

    /// Something here can be forgotten from this moment on, in whichever segment.
    pub(super) fn note_forgettable(&mut self, from: Moment) {
        self.evictable_from = self.evictable_from.min(from);
        self.seen_forgettable_from = self.seen_forgettable_from.min(from);
        (self.noted_anywhere, self.noted_in_round) = (true, true);
    }

    pub(super) fn keep_wide(&mut self, wide: Wide<R>) -> u64 {
        store(&mut self.wide, &mut self.free, wide)
    }

    fn state_of(&self, word: u64, near: Moment) -> R::State {
        R::Fast::unpack(&self.rule, word, near)
    }
}

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// A key can be forgotten from this moment on.
    pub(super) fn note_forgettable_key<Q>(&mut self, hash: u64, key: &Q, from: Moment)
    where
        Q: Hash + ?Sized,
    {
        self.evictable_from = self.evictable_from.min(from);
        self.seen_forgettable_from = self.seen_forgettable_from.min(from);
        self.entries.note_forgettable(hash, key, from);
    }

    /// The state of a key.
    #[inline]
    pub(super) fn find<Q: Hash + Eq + ?Sized>(&mut self, hash: u64, key: &Q) -> Option<Found<'_, R>>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.find(hash, key)?;
        let rule = &*self.rule;
        match place(entry.word.get()) {
            None => Some(Found::Word(rule, &mut entry.word)),
            Some(place) => {
                let wide = self.wide.get_mut(place)?.as_mut()?;
                Some(Found::Wide(rule, wide))
            }
        }
    }

    /// The rule of a key: its own, or that of all.
    pub(super) fn rule_of<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> &R
    where
        K: Borrow<Q>,
    {
        self.own.get(key).unwrap_or(&self.rule)
    }

    /// Adds the state of a new key, which is [noted](super::shared::Shared::note) once something has been taken from it: until then it
    /// is as good as new, and everybody would look for something to forget.
    pub(super) fn insert(&mut self, hasher: &impl BuildHasher, hash: u64, key: K, now: Moment) {
        // A word has no room for when it began.
        let began = if R::RETURNS_PERMITS {
            None
        } else {
            self.starts.of_new_key(now)
        };
        let own = self.own.get(&key).cloned();
        let state = own.as_ref().unwrap_or(&self.rule).fresh_key(now);
        let word = if own.is_some() || began.is_some() {
            self.keep_wide(Wide {
                own,
                began,
                ..Wide::new(What::State(state), now)
            })
        } else {
            self.keep(state, now)
        };
        let word = Word::new(word);
        self.entries.insert(hash, Entry { key, word }, hasher);
    }

    /// From when on a key can be forgotten, if it is known.
    pub(super) fn evictable_from_of<Q: Hash + Eq + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        now: Moment,
    ) -> Option<Moment>
    where
        K: Borrow<Q>,
    {
        Some(match self.find(hash, key)? {
            Found::Word(rule, word) => {
                let from = rule.evictable_from(&R::Fast::unpack(rule, word.get(), now), now);
                from.unwrap_or(now.plus(LOOK_AGAIN))
            }
            Found::Wide(rule, wide) => wide.evictable_from(rule, now),
        })
    }

    /// Forgets the state of a key, whatever it is. It is returned, to be dropped when the lock is free.
    pub(super) fn remove<Q: Hash + Eq + ?Sized>(
        &mut self,
        hash: u64,
        key: &Q,
        hasher: &impl BuildHasher,
        clock: &Clock,
    ) -> Option<Option<Wide<R>>>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.remove(hash, key, hasher)?;
        let removed = self.release(entry.word.get());
        if let Some(What::Gate(held)) = removed.as_ref().map(|wide| &wide.what) {
            self.detached.retain(|gate| gate.upgrade().is_some());
            self.detached.push(held.detach());
        }
        self.lose_grants(removed.as_ref(), clock);
        Some(removed)
    }

    /// The state of a key is gone although it differs from that of a new one: what was granted to the key can no longer be
    /// undone, or it would free what others take who come after that.
    fn lose_grants(&mut self, removed: Option<&Wide<R>>, clock: &Clock) {
        if R::RETURNS_PERMITS {
            return;
        }
        // Read behind the lock, so that nothing was granted later.
        let now = clock.precise_now();
        let own = removed.and_then(|wide| wide.own.as_deref());
        let window = own.unwrap_or(&self.rule).window(now);
        self.forgot_at = self.forgot_at.max(now);
        self.starts.lose_grants(now, window);
    }

    fn release(&mut self, word: u64) -> Option<Wide<R>> {
        let place = place(word)?;
        self.free.push(place);
        self.wide[place].take()
    }

    /// Whether there is a state that can be evicted.
    pub(super) fn can_evict(&self) -> bool {
        self.wide.iter().flatten().any(Wide::is_evictable)
    }

    /// Forgets the state that was used longest ago, unless its key is in use.
    pub(super) fn evict_least_recent(&mut self, hasher: &impl BuildHasher, clock: &Clock) -> bool {
        let oldest = self.entries.iter().filter_map(|entry| {
            let wide = self.wide[place(entry.word.get())?].as_ref()?;
            wide.is_evictable().then_some((wide.used, entry.word))
        });
        let Some((_, word)) = oldest.min_by_key(|(used, _)| *used) else {
            return false;
        };
        self.entries
            .remove_where(|entry| entry.word == word, hasher);
        let evicted = self.release(word.get());
        self.lose_grants(evicted.as_ref(), clock);
        true
    }

    /// Calls `see` with every key and its state or gate.
    pub(super) fn each(&self, now: Moment, mut see: impl FnMut(&K, View<'_, R>)) {
        let near = self.reference(now);
        for entry in self.entries.iter() {
            match place(entry.word.get()) {
                None => {
                    let state = self.state_of(entry.word.get(), near);
                    see(&entry.key, View::State(&self.rule, &state));
                }
                Some(place) => {
                    let Some(wide) = &self.wide[place] else {
                        continue;
                    };
                    let rule = wide.own.as_deref().unwrap_or(&self.rule);
                    see(
                        &entry.key,
                        match &wide.what {
                            What::State(state) => View::State(rule, state),
                            What::Gate(held) => View::Gate(held),
                        },
                    );
                }
            }
        }
    }
}

/// What is known of a key.
pub(super) enum View<'a, R: Rule> {
    State(&'a R, &'a R::State),
    Gate(&'a Arc<GateOfKey<R>>),
}
