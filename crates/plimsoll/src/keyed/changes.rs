//! Changes of the rules of a table.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::key_gate::Lease;
use super::slots::Slots;
use super::starts::is_of;
use super::table::{Found, Table};
use super::wide::{What, Wide, place};
use crate::gate::WeakGate;
use crate::stamp::Stamp;
use crate::{Carry, Gate, Moment, Packed, Rule};

impl<K: Hash + Eq, R: Rule + Clone> Table<K, R> {
    /// Replaces the rule; keys with a rule of their own keep it. Returns the gates, which the caller must change.
    pub(super) fn replace(
        &mut self,
        rule: &Arc<R>,
        now: Moment,
        carry: Carry,
        late: Duration,
    ) -> Vec<Lease<R>> {
        let mut gates = Vec::new();
        let near = self.reference(now);
        let old = std::mem::replace(&mut self.rule, Arc::clone(rule));
        let start = (!rule.keeps_grants(carry)).then(|| self.starts.of_rule(now, late));
        self.begin_epoch(now);
        self.note_forgettable(now);
        let mut entries = std::mem::replace(&mut self.entries, Slots::new());
        for entry in entries.iter_mut() {
            let Some(place) = place(entry.word.get()) else {
                let state = rule.adopt(
                    &old,
                    &R::Fast::unpack(&old, entry.word.get(), near),
                    now,
                    carry,
                );
                entry.word.set(self.keep(state, now));
                continue;
            };
            match &mut self.wide[place] {
                Some(Wide {
                    own: None,
                    what: What::State(state),
                    ..
                }) => *state = rule.adopt(&old, state, now, carry),
                Some(Wide {
                    own: None,
                    what: What::Gate(held),
                    ..
                }) => {
                    held.set_rule(rule, start);
                    gates.push(Lease::new(held));
                }
                _ => {}
            }
        }
        self.entries = entries;
        gates
    }

    /// Sets a rule of its own for a key. Returns its gate if it has one, which the caller must change.
    pub(super) fn set_own<Q>(
        &mut self,
        hash: u64,
        key: &Q,
        rule: &Arc<R>,
        now: Moment,
        carry: Carry,
    ) -> Option<Lease<R>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let start = (!rule.keeps_grants(carry)).then(|| self.starts.of_own(now));
        let began = start.or_else(|| self.starts.of_key(None, false));
        match self.find(hash, key)? {
            Found::Word(old, word) => {
                let state = rule.adopt(old, &R::Fast::unpack(old, word.get(), now), now, carry);
                let wide = self.keep_wide(Wide {
                    own: Some(Arc::clone(rule)),
                    began,
                    ..Wide::new(What::State(state), now)
                });
                if let Some(Found::Word(_, word)) = self.find(hash, key) {
                    word.set(wide);
                }
                None
            }
            Found::Wide(default, wide) => {
                // From now on the key follows its own rule; until now it followed the rule of all keys, if it had none.
                wide.began = if wide.own.is_some() && rule.keeps_grants(carry) {
                    wide.began
                } else {
                    wide.began.max(began)
                };
                let old = wide.own.replace(Arc::clone(rule));
                let old = old.as_deref().unwrap_or(default);
                match &mut wide.what {
                    What::State(state) => {
                        *state = rule.adopt(old, state, now, carry);
                        None
                    }
                    What::Gate(held) => {
                        held.set_rule(rule, start);
                        Some(Lease::new(held))
                    }
                }
            }
        }
    }

    /// Whether a grant to a key with this stamp can still be undone. A change of its rule may have started a new state
    /// with a sum, in which single grants can no longer be distinguished.
    pub(super) fn knows_grants_of<Q>(&mut self, hash: u64, key: &Q, taken: Stamp) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (own, has_own_rule) = match self.find(hash, key) {
            Some(Found::Wide(_, wide)) => (wide.began, wide.own.is_some()),
            _ => (None, false),
        };
        is_of(self.starts.of_key(own, has_own_rule), taken)
    }

    /// Stores the rule of a key. Returns whether it had none of its own before.
    pub(super) fn remember_own(&mut self, key: K, rule: Arc<R>) -> bool {
        self.own.insert(key, rule).is_none()
    }

    /// Whether a key has a rule of its own.
    pub(super) fn has_own<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.own.contains_key(key)
    }

    /// Removes the rule of a key. Returns whether it had one of its own.
    pub(super) fn forget_own<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.own.remove(key).is_some()
    }

    /// Refuses every demand from now on. The caller must close the gates.
    pub(super) fn close(&mut self) {
        (self.closed, self.paused) = (true, false);
        self.short_lasts = 0;
    }

    /// Refuses every demand until it is resumed. The caller must pause the gates.
    pub(super) fn pause(&mut self) {
        if !self.closed {
            self.close();
            self.paused = true;
        }
    }

    /// Ends a pause. The caller must resume the gates.
    pub(super) fn resume(&mut self) {
        if std::mem::take(&mut self.paused) {
            self.closed = false;
            self.open_fast_path();
        }
    }

    /// The gate of a key, if it has one.
    pub(super) fn timeless_gate<Q>(&mut self, hash: u64, key: &Q) -> Option<Lease<R>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.untimed = self.untimed.wrapping_add(1);
        if self.untimed == 0 || self.closed {
            return None;
        }
        match self.find(hash, key)? {
            Found::Wide(_, wide) => match &wide.what {
                What::Gate(held) => Some(Lease::new(held)),
                What::State(_) => None,
            },
            Found::Word(..) => None,
        }
    }

    /// The gates of all keys that have one.
    pub(super) fn gates(&self) -> Vec<Lease<R>> {
        let wide = self.wide.iter().flatten();
        let gates = wide.filter_map(|wide| match &wide.what {
            What::Gate(held) => Some(Lease::new(held)),
            What::State(_) => None,
        });
        gates.collect()
    }

    /// The gates of keys that were forgotten, as far as they are still held.
    pub(super) fn detached(&self) -> Vec<Gate<R>> {
        let detached = self.detached.iter();
        detached.filter_map(WeakGate::upgrade).collect()
    }
}
