//! How the table of a shard grows and shrinks: the sizes of its segments, splits and merges.
//!
//! A table that shrinks merges its segments again, and ends in the memory that it had while it was small. glibc's allocator returns
//! memory to the system from the end of its heap, so a block that stays must not lie above those that are freed: that memory was
//! allocated before them. For the same reason nothing small is allocated while a table shrinks: the allocator caches freed blocks of
//! up to a kilobyte, and they stay where they are.

use std::hash::{BuildHasher, Hash};
use std::iter::zip;
use std::mem::{replace, take};

use super::{Slots, tags};
use crate::keyed::segment::{Segment, is_too_much};

/// The numbers of slots of a segment, from an empty one to one for which another is split when it is full. Small ones grow in long
/// strides: each leaves a hole in the heap, and those of many shards add up.
pub(super) const SIZES: [usize; 6] = [4, 32, 512, 1024, 2048, 3072];

/// A table that grows beyond this many slots keeps the memory of these for when it has few keys again. No segment with keys shrinks
/// further.
pub(super) const KEPT: usize = SIZES[2];

/// The list of segments of a larger table begins with this capacity.
const LIST: usize = 32;

/// With fewer keys to a segment none is split: then all have been, or one has more than its share.
const FEW: usize = SIZES[SIZES.len() - 1] * 3 / 8;

/// With fewer keys to a segment two are merged; what comes of it is far from being split again.
const SPARSE: usize = FEW / 4;

/// A merge counts as this many keys in addition to those it moves.
const MERGE: usize = 8;

impl<K: Hash + Eq> Slots<K> {
    /// Makes room in the segment of a tag.
    #[cold]
    pub(super) fn grow(&mut self, tag: u32, hasher: &impl BuildHasher) {
        let number = self.number(tag);
        let slots = self.segments[number].slots();
        if let Some(larger) = SIZES.into_iter().find(|size| *size > slots) {
            if slots == KEPT && self.segments.len() == 1 && self.small.is_empty() {
                let mut only = Segment::new(larger);
                self.move_all(&mut only, hasher);
                let mut segments = Vec::with_capacity(LIST);
                segments.push(only);
                self.small = replace(&mut self.segments, segments);
                return;
            }
            return self.resize(number, larger, hasher);
        }
        // All are full at about the same time, and half of them are split before they are.
        for _ in 0..2 {
            if self.len >= self.segments.len() * FEW {
                self.split(hasher);
            }
        }
        if self.number(tag) == number && self.segments[number].slots() == slots {
            self.resize(number, slots / 2 * 3, hasher);
        }
    }

    /// Splits the segment whose turn it is.
    fn split(&mut self, hasher: &impl BuildHasher) {
        let upper = self.segments.len();
        let mask = mask(upper + 1);
        let lower = upper & (mask >> 1) as usize;
        let tag_of = tags(self.salt.as_deref(), hasher);
        // Hashed before anything is moved: it may panic.
        let tags = self.segments[lower].tags(&tag_of);
        self.mask = mask;
        self.segments.push(Segment::new(0));
        let count = tags.iter().filter(|tag| self.number(**tag) == upper);
        let count = count.count();
        let mut halves = [tags.len() - count, count].map(|len| Segment::new(size_for(len)));
        let from = self.segments[lower].evictable_from();
        halves
            .iter_mut()
            .for_each(|half| half.note_forgettable(from));
        let entries = self.segments[lower].drain();
        for (tag, entry) in zip(tags, entries) {
            let half = usize::from(self.number(tag) == upper);
            halves[half].put(tag, entry);
        }
        [self.segments[lower], self.segments[upper]] = halves;
    }

    /// Merges segments while most of their slots are free, until about `most` keys have moved. Called between two rounds of
    /// [`look_around`](Self::look_around), because what a round has seen must not move to what it has not, or the other way round.
    pub(super) fn shrink(&mut self, most: usize, hasher: &impl BuildHasher) {
        let mut moved = 0;
        while moved < most && self.segments.len() > 1 && self.len < self.segments.len() * SPARSE {
            moved += MERGE + self.merge(hasher);
        }
        if self.segments.len() == 1 && !self.small.is_empty() && self.len <= KEPT / 2 {
            let mut small = take(&mut self.small);
            self.move_all(&mut small[0], hasher);
            self.segments = small;
        }
    }

    /// Moves all keys of a table of one segment to another segment.
    fn move_all(&mut self, to: &mut Segment<K>, hasher: &impl BuildHasher) {
        let from = &mut self.segments[0];
        // Hashed before anything is moved: it may panic.
        let tags = from.tags(&tags(self.salt.as_deref(), hasher));
        to.note_forgettable(from.evictable_from());
        for (tag, entry) in zip(tags, from.empty()) {
            to.put(tag, entry);
        }
    }

    /// Takes back the last split, and returns how many keys were moved for it.
    fn merge(&mut self, hasher: &impl BuildHasher) -> usize {
        let upper = self.segments.len() - 1;
        let lower = upper & (self.mask >> 1) as usize;
        let tag_of = tags(self.salt.as_deref(), hasher);
        // Hashed before anything is moved: it may panic.
        let tags = [lower, upper].map(|number| self.segments[number].tags(&tag_of));
        let keys = tags[0].len() + tags[1].len();
        let mut merged = Segment::new(size_for(keys).max(KEPT));
        for (number, tags) in zip([lower, upper], tags) {
            let part = &mut self.segments[number];
            merged.note_forgettable(part.evictable_from());
            for (tag, entry) in zip(tags, part.drain()) {
                merged.put(tag, entry);
            }
        }
        self.segments.truncate(upper);
        self.segments[lower] = merged;
        self.mask = mask(upper);
        keys
    }

    pub(super) fn resize(&mut self, number: usize, slots: usize, hasher: &impl BuildHasher) {
        let tag_of = tags(self.salt.as_deref(), hasher);
        self.segments[number].resize(slots, &tag_of);
    }
}

/// The bits of the numbers of so many segments.
fn mask(segments: usize) -> u32 {
    u32::try_from(segments.next_power_of_two() - 1).unwrap_or(u32::MAX)
}

/// The number of slots of a segment with so many keys and some that come.
fn size_for(len: usize) -> usize {
    let mut sizes = SIZES.into_iter();
    let fits = sizes.find(|size| !is_too_much(len + len / 8, *size));
    // All keys of a segment may be in one half.
    fits.unwrap_or(len * 2)
}
