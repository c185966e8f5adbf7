//! The table of keys of a shard, which grows and shrinks a part at a time.
//!
//! A table in one piece would have to be moved as a whole when it is full, which is a pause of milliseconds if it is large. So it
//! consists of segments. A small one that is full is replaced by a larger one; for a large one the table gets another segment, by
//! splitting its segments in two one after the other, whichever of them is full (linear hashing). So which segment a key is in follows from its tag and the number of
//! segments, and no directory has to be read for it, which is in no cache where there are many keys.

mod resizing;
#[cfg(all(test, not(loom)))]
mod tests;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter::zip;

use self::resizing::{KEPT, SIZES};
use super::segment::{Entry, Segment, is_too_much};
use crate::Moment;

/// What a search needs comes first.
#[repr(C)]
pub(super) struct Slots<K> {
    segments: Vec<Segment<K>>,
    /// The bits by which a segment is found: its number has no others.
    mask: u32,
    /// Hashes once more, by a hash that is slow but that nobody can find collisions of, when there were
    /// more of them than by chance.
    salt: Option<Box<RandomState>>,
    len: usize,
    /// How many segments have been looked at in this round.
    seen: usize,
    /// The segment of the table when it had [`KEPT`] slots, without keys. Empty unless it has more now.
    small: Vec<Segment<K>>,
}

/// A key at this distance from its preferred slot makes the table count how many keys share that slot.
const FAR: usize = 64;

/// This many keys do not share a preferred slot by chance: there are fewer keys than slots.
const COLLISIONS: usize = 16;

/// To pass a segment over counts as so many slots.
const PASSED_OVER: usize = 8;

impl<K> Slots<K> {
    pub(super) fn new() -> Self {
        Self {
            segments: vec![Segment::new(0)],
            mask: 0,
            len: 0,
            seen: 0,
            salt: None,
            small: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.segments.iter().flat_map(Segment::iter)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<K>> {
        self.segments.iter_mut().flat_map(Segment::iter_mut)
    }

    /// The number of the segment of a tag.
    #[inline]
    fn number(&self, tag: u32) -> usize {
        // Where a key lies in its segment is said by the leading bits.
        let number = (tag & self.mask) as usize;
        if number < self.segments.len() {
            number
        } else {
            number & (self.mask >> 1) as usize
        }
    }
}

impl<K: Hash + Eq> Slots<K> {
    /// The tag by which a key is found here.
    #[inline(always)]
    fn tag<Q: Hash + ?Sized>(&self, hash: u64, key: &Q) -> u32 {
        match &self.salt {
            None => Segment::<K>::tag(hash),
            Some(salt) => Segment::<K>::tag(salted(salt, key)),
        }
    }

    #[inline(always)]
    pub(super) fn find<Q>(&mut self, hash: u64, key: &Q) -> Option<&mut Entry<K>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let tag = self.tag(hash, key);
        let number = self.number(tag);
        let segment = &mut self.segments[number];
        let at = segment.find(tag, key)?;
        segment.get(at)
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry<K>, hasher: &impl BuildHasher) {
        let tag = self.tag(hash, &entry.key);
        let mut number = self.number(tag);
        while self.segments[number].is_full() {
            self.grow(tag, hasher);
            number = self.number(tag);
        }
        let segment = &mut self.segments[number];
        let steps = segment.put(tag, entry);
        self.len += 1;
        if steps >= FAR && self.salt.is_none() {
            let tag_of = tags(None, hasher);
            if segment.crowd(tag, &tag_of) > COLLISIONS {
                self.add_salt();
            }
        }
    }

    pub(super) fn remove<Q>(
        &mut self,
        hash: u64,
        key: &Q,
        hasher: &impl BuildHasher,
    ) -> Option<Entry<K>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let tag = self.tag(hash, key);
        let number = self.number(tag);
        let segment = &mut self.segments[number];
        let at = segment.find(tag, key)?;
        let removed = segment.remove(at, &tags(self.salt.as_deref(), hasher))?;
        self.len -= 1;
        Some(removed)
    }

    /// Removes the first entry of which `is_it` holds.
    pub(super) fn remove_where(
        &mut self,
        is_it: impl Fn(&Entry<K>) -> bool,
        hasher: &impl BuildHasher,
    ) -> Option<Entry<K>> {
        let tag_of = tags(self.salt.as_deref(), hasher);
        let mut segments = self.segments.iter_mut();
        let removed = segments.find_map(|segment| segment.remove_where(&is_it, &tag_of))?;
        self.len -= 1;
        Some(removed)
    }

    /// Looks at the next segments, until it has seen `slots` slots, and forgets the entries for which `keep` returns `None`. Of the
    /// others it returns from when on they can be forgotten. Segments in which nothing can be forgotten at `now` are passed over
    /// if that is given. Returns whether that ends a round, in which everything was looked at that was there all the time, and the
    /// earliest moment from which on something can be forgotten of what it has seen.
    pub(super) fn look_around(
        &mut self,
        slots: usize,
        pass_over: Option<Moment>,
        hasher: &impl BuildHasher,
        mut keep: impl FnMut(&mut Entry<K>) -> Option<Moment>,
    ) -> (bool, Moment) {
        let (mut looked_at, mut earliest) = (0, Moment::NEVER);
        while looked_at < slots && self.seen < self.segments.len() {
            let number = self.seen;
            let from = self.segments[number].evictable_from();
            match pass_over {
                Some(now) if from > now => looked_at += PASSED_OVER,
                _ => {
                    self.sweep(number, hasher, &mut keep);
                    looked_at += self.segments[number].slots();
                }
            }
            let segment = &self.segments[number];
            earliest = earliest.min(segment.evictable_from());
            // Give memory back when most of it is not needed.
            let (len, slots) = (segment.len(), segment.slots());
            let needed = if len == 0 { 0 } else { KEPT.max(len * 2) };
            if slots > SIZES[1] && len < slots / 8 && needed < slots {
                self.resize(number, needed, hasher);
            }
            self.seen += 1;
        }
        let ended = self.seen == self.segments.len();
        if ended {
            self.seen = 0;
            self.shrink(slots, hasher);
        }
        (ended, earliest)
    }

    /// A key can be forgotten from this moment on.
    pub(super) fn note_forgettable<Q: Hash + ?Sized>(&mut self, hash: u64, key: &Q, from: Moment) {
        let number = self.number(self.tag(hash, key));
        self.segments[number].note_forgettable(from);
    }

    /// The tag of a new key, if the table would have to grow for it.
    #[inline]
    pub(super) fn full<Q: Hash + ?Sized>(&self, hash: u64, key: &Q) -> Option<u32> {
        let tag = self.tag(hash, key);
        let is_full = self.segments[self.number(tag)].is_full();
        is_full.then_some(tag)
    }

    /// Forgets the entries for which `keep` returns `None` in the segment of a tag, and returns the earliest moment from which on
    /// another one of it can be forgotten.
    pub(super) fn make_room(
        &mut self,
        tag: u32,
        hasher: &impl BuildHasher,
        mut keep: impl FnMut(&mut Entry<K>) -> Option<Moment>,
    ) -> Moment {
        let segment = self.sweep(self.number(tag), hasher, &mut keep);
        let from = segment.evictable_from();
        // Where little was to be forgotten it grows all the same, or it would soon be swept again.
        if is_too_much(segment.len() * 4 / 3 + 1, segment.slots()) {
            self.grow(tag, hasher);
        }
        from
    }

    fn sweep(
        &mut self,
        number: usize,
        hasher: &impl BuildHasher,
        keep: &mut impl FnMut(&mut Entry<K>) -> Option<Moment>,
    ) -> &Segment<K> {
        let segment = &mut self.segments[number];
        let before = segment.len();
        segment.sweep(keep, &tags(self.salt.as_deref(), hasher));
        self.len -= before - segment.len();
        segment
    }

    /// Begins a new round.
    pub(super) fn start_round(&mut self) {
        self.seen = 0;
    }

    #[cold]
    fn add_salt(&mut self) {
        let salt = RandomState::new();
        // Hashed before anything is moved: it may panic.
        let hashes: Vec<u64> = self.iter().map(|entry| salt.hash_one(&entry.key)).collect();
        let mut salted = Self {
            salt: Some(Box::new(salt.clone())),
            ..Self::new()
        };
        let from = self.segments.iter().map(Segment::evictable_from).min();
        let entries = self.segments.iter_mut().flat_map(Segment::drain);
        for (hash, entry) in zip(hashes, entries) {
            salted.insert(hash, entry, &salt);
        }
        for segment in &mut salted.segments {
            segment.note_forgettable(from.unwrap_or(Moment::NEVER));
        }
        *self = salted;
    }
}

#[cold]
fn salted<Q: Hash + ?Sized>(salt: &RandomState, key: &Q) -> u64 {
    salt.hash_one(key)
}

/// What tags keys.
fn tags<K: Hash>(salt: Option<&RandomState>, hasher: &impl BuildHasher) -> impl Fn(&K) -> u32 {
    move |key| {
        Segment::<K>::tag(match salt {
            Some(salt) => salt.hash_one(key),
            None => hasher.hash_one(key),
        })
    }
}
