//! A part of the table of keys: open addressing in one piece of memory, without marks for what was removed.
//!
//! A key lies in the first free slot from its preferred slot (`home`) on, which follows from its tag, 32 bits of its hash.
//! Most are found in the cache line where the search begins. Where an entry is removed, those behind it move up, so that a
//! search ends at the first slot that is free.

use std::borrow::Borrow;
use std::iter::zip;
use std::mem::{needs_drop, take};

use super::word::Word;
use crate::Moment;

pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) word: Word,
}

pub(super) struct Segment<K> {
    slots: Box<[Option<Entry<K>>]>,
    /// The tags of the keys, 0 where there is none. Empty unless keys are [tagged](Self::TAGGED).
    tags: Box<[u32]>,
    len: usize,
    /// Before this moment none of its keys can be forgotten.
    evictable_from: Moment,
}

impl<K> Segment<K> {
    /// Keys that own memory are compared only if their tags are equal, because comparing them reads that memory.
    /// Others are compared where they lie, and hashed again where they move.
    const TAGGED: bool = needs_drop::<K>();

    /// The bits of a hash that say where a key lies; not 0 where the tags of keys are kept.
    #[inline]
    pub(super) fn tag(hash: u64) -> u32 {
        ((hash >> 32) as u32).max(u32::from(Self::TAGGED))
    }

    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| None).collect(),
            tags: vec![0; if Self::TAGGED { slots } else { 0 }].into(),
            len: 0,
            evictable_from: Moment::NEVER,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn evictable_from(&self) -> Moment {
        self.evictable_from
    }

    /// One of its keys can be forgotten from this moment on.
    pub(super) fn note_forgettable(&mut self, from: Moment) {
        self.evictable_from = self.evictable_from.min(from);
    }

    /// Whether another key would make it slow.
    pub(super) fn is_full(&self) -> bool {
        is_too_much(self.len + 1, self.slots())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<K>> {
        self.slots.iter_mut().flatten()
    }

    /// Where the search for a key begins.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        let scaled = u64::from(tag) * self.slots.len() as u64;
        usize::try_from(scaled >> 32).unwrap_or(0)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        let next = at + 1;
        if next == self.slots.len() { 0 } else { next }
    }

    /// Where a key lies.
    #[inline(always)]
    pub(super) fn find<Q>(&self, tag: u32, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut at = self.home(tag);
        loop {
            if Self::TAGGED {
                let known = *self.tags.get(at)?;
                if known == tag && self.slots[at].as_ref()?.key.borrow() == key {
                    return Some(at);
                }
                if known == 0 {
                    return None;
                }
            } else if self.slots.get(at)?.as_ref()?.key.borrow() == key {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    #[inline]
    pub(super) fn get(&mut self, at: usize) -> Option<&mut Entry<K>> {
        self.slots[at].as_mut()
    }

    /// Adds a key that is not present; there must be room. Returns its distance from its preferred slot.
    pub(super) fn put(&mut self, tag: u32, entry: Entry<K>) -> usize {
        let (mut at, mut steps) = (self.home(tag), 0);
        while self.slots[at].is_some() {
            at = self.after(at);
            steps += 1;
        }
        if Self::TAGGED {
            self.tags[at] = tag;
        }
        self.slots[at] = Some(entry);
        self.len += 1;
        steps
    }

    fn tag_at(&self, at: usize, tag_of: &impl Fn(&K) -> u32) -> u32 {
        match &self.slots[at] {
            _ if Self::TAGGED => self.tags[at],
            Some(entry) => tag_of(&entry.key),
            None => 0,
        }
    }

    /// The number of keys behind the preferred slot of a tag that have the same preferred slot.
    pub(super) fn crowd(&self, tag: u32, tag_of: &impl Fn(&K) -> u32) -> usize {
        let home = self.home(tag);
        let (mut at, mut crowd) = (home, 0);
        while self.slots[at].is_some() {
            crowd += usize::from(self.home(self.tag_at(at, tag_of)) == home);
            at = self.after(at);
        }
        crowd
    }

    /// Removes an entry. It moves to the end of those that lie behind it for want of room, step by step, so that all others can
    /// be found at any time: hashing a key may panic.
    pub(super) fn remove(
        &mut self,
        mut at: usize,
        tag_of: &impl Fn(&K) -> u32,
    ) -> Option<Entry<K>> {
        let slots = self.slots.len();
        let steps = |from: usize, to: usize| {
            if to < from {
                to + slots - from
            } else {
                to - from
            }
        };
        let mut next = self.after(at);
        while self.slots[next].is_some() {
            let home = self.home(self.tag_at(next, tag_of));
            if steps(home, next) >= steps(at, next) {
                self.slots.swap(at, next);
                if Self::TAGGED {
                    self.tags.swap(at, next);
                }
                at = next;
            }
            next = self.after(next);
        }
        if Self::TAGGED {
            self.tags[at] = 0;
        }
        let removed = self.slots[at].take();
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Removes the first entry of which `is_it` holds.
    pub(super) fn remove_where(
        &mut self,
        is_it: impl Fn(&Entry<K>) -> bool,
        tag_of: &impl Fn(&K) -> u32,
    ) -> Option<Entry<K>> {
        let mut slots = self.slots.iter();
        let at = slots.position(|slot| slot.as_ref().is_some_and(&is_it))?;
        self.remove(at, tag_of)
    }

    /// Removes the entries for which `keep` returns `None`. Of the others it returns from when on they can be forgotten.
    pub(super) fn sweep(
        &mut self,
        keep: &mut impl FnMut(&mut Entry<K>) -> Option<Moment>,
        tag_of: &impl Fn(&K) -> u32,
    ) {
        let Some(gap) = self.slots.iter().position(Option::is_none) else {
            return;
        };
        let mut earliest = Moment::NEVER;
        // Backwards from a gap: what moves up has been seen, and few are left of it.
        for at in (0..gap).rev().chain((gap..self.slots.len()).rev()) {
            let Some(entry) = &mut self.slots[at] else {
                continue;
            };
            match keep(entry) {
                Some(from) => earliest = earliest.min(from),
                None => drop(self.remove(at, tag_of)),
            }
        }
        self.evictable_from = earliest;
    }

    /// All tags, in the order of the entries.
    pub(super) fn tags(&self, tag_of: &impl Fn(&K) -> u32) -> Vec<u32> {
        // As large as it can get: allocators keep small blocks for later, and one that lies above a freed segment keeps its memory, too.
        let mut tags = Vec::with_capacity(self.slots());
        if Self::TAGGED {
            tags.extend(self.tags.iter().filter(|tag| **tag != 0));
        } else {
            tags.extend(self.iter().map(|entry| tag_of(&entry.key)));
        }
        tags
    }

    /// Takes all entries out, in the order of their tags, and the memory with them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry<K>> + use<K> {
        self.len = 0;
        self.tags = Box::default();
        take(&mut self.slots).into_iter().flatten()
    }

    /// Takes all entries out, in the order of their tags, and keeps the memory.
    pub(super) fn empty(&mut self) -> impl Iterator<Item = Entry<K>> + use<'_, K> {
        self.len = 0;
        self.tags.fill(0);
        self.evictable_from = Moment::NEVER;
        self.slots.iter_mut().filter_map(Option::take)
    }

    /// Goes on with so many slots.
    pub(super) fn resize(&mut self, slots: usize, tag_of: &impl Fn(&K) -> u32) {
        // Hashed before anything is moved: it may panic.
        let tags = self.tags(tag_of);
        let mut resized = Self::new(slots);
        resized.evictable_from = self.evictable_from;
        for (tag, entry) in zip(tags, self.drain()) {
            resized.put(tag, entry);
        }
        *self = resized;
    }
}

/// Whether so many keys are too many for so many slots: the more of them are taken, the farther lie the keys from their homes.
pub(super) fn is_too_much(keys: usize, slots: usize) -> bool {
    keys * 4 > slots * 3
}
