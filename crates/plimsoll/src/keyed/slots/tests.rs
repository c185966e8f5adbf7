//! Tables that grow and shrink.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::resizing::{KEPT, SIZES};
use super::{Entry, Slots};
use crate::Moment;
use crate::keyed::word::Word;

/// A table of slots and a plain map, to which the same happens.
struct Both {
    hasher: RandomState,
    slots: Slots<u32>,
    model: HashMap<u32, u64>,
}

impl Both {
    fn add(&mut self, key: u32) {
        let word = u64::from(key) * 3;
        if self.model.insert(key, word).is_none() {
            let hash = self.hasher.hash_one(key);
            let word = Word::new(word);
            self.slots.insert(hash, Entry { key, word }, &self.hasher);
        }
    }

    fn remove(&mut self, key: u32) {
        let hash = self.hasher.hash_one(key);
        let removed = self.slots.remove(hash, &key, &self.hasher);
        let removed = removed.map(|entry| entry.word.get());
        assert_eq!(removed, self.model.remove(&key));
    }

    fn check(&mut self, keys: std::ops::Range<u32>) {
        assert_eq!(self.slots.len(), self.model.len());
        for key in keys {
            let hash = self.hasher.hash_one(key);
            let found = self.slots.find(hash, &key).map(|entry| entry.word.get());
            assert_eq!(found, self.model.get(&key).copied(), "{key}");
        }
    }
}

#[test]
fn nothing_is_lost_while_tables_grow_and_shrink() {
    let mut both = Both {
        hasher: RandomState::new(),
        slots: Slots::new(),
        model: HashMap::new(),
    };
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..60_u32 {
        for _ in 0..1500 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = (random % 60_000) as u32;
            // It grows for twenty rounds, shrinks for twenty, and grows again.
            if (random >> 40) % 10 < if round / 20 == 1 { 2 } else { 8 } {
                both.add(key);
            } else {
                both.remove(key);
            }
        }
        let threshold = if round / 20 == 1 { 50_000 } else { 1_000 };
        both.slots.look_around(700, None, &both.hasher, |entry| {
            let keep = entry.key >= threshold;
            if !keep {
                both.model.remove(&entry.key);
            }
            keep.then_some(Moment::NEVER)
        });
        both.check(0..60_000);
    }
}

#[test]
fn a_round_sees_everything_once_and_gives_memory_back() {
    let hasher = RandomState::new();
    let mut slots = Slots::new();
    for key in 0..20_000_u32 {
        let word = Word::new(0);
        slots.insert(hasher.hash_one(key), Entry { key, word }, &hasher);
    }
    slots.start_round();
    let mut seen = 0;
    while !slots
        .look_around(1000, None, &hasher, |entry| {
            seen += 1;
            (entry.key % 100 == 0).then_some(Moment::NEVER)
        })
        .0
    {}
    assert_eq!((seen, slots.len()), (20_000, 200));
    let left: usize = slots.segments.iter().map(|segment| segment.slots()).sum();
    assert!(left <= 512, "{left}");
}

/// With glibc the memory of a million keys stayed with the process when they had gone: small segments lay between those that were freed.
#[test]
fn a_table_that_shrinks_goes_back_to_the_memory_it_began_in() {
    let hasher = RandomState::new();
    let mut slots = Slots::new();
    let mut first = None;
    for key in 0..100_000_u32 {
        let (hash, word) = (hasher.hash_one(key), Word::new(0));
        slots.insert(hash, Entry { key, word }, &hasher);
        if slots.segments[0].slots() == KEPT {
            first = Some(slots.segments.as_ptr());
        }
    }
    assert!(slots.segments.len() > 32);
    for left in [30_000, 3_000, 200, 100, 0] {
        // After a round in which keys were forgotten segments are merged, and shrink in the next.
        for _ in 0..12 {
            slots.look_around(usize::MAX, None, &hasher, |entry| {
                (entry.key < left).then_some(Moment::NEVER)
            });
        }
        assert_eq!(slots.len(), left as usize);
        let held: usize = slots.segments.iter().map(|segment| segment.slots()).sum();
        assert!(held <= KEPT.max(left as usize * 10), "{held} for {left}");
        let is_first = first == Some(slots.segments.as_ptr());
        assert_eq!(is_first, left <= 200, "{left}");
        for key in 0..left {
            assert!(slots.find(hasher.hash_one(key), &key).is_some());
        }
    }
    assert_eq!(slots.segments[0].slots(), 0);
}

/// A full table in which keys become idle one by one was searched as a whole for each of them: half a millisecond with a million keys.
#[test]
fn segments_in_which_nothing_can_be_forgotten_are_passed_over() {
    const KEYS: u32 = 50_000;
    let hasher = RandomState::new();
    let mut slots = Slots::new();
    let from = |key: u32| Moment::from_nanos(u64::from(key));
    for key in 0..KEYS {
        let (hash, word) = (hasher.hash_one(key), Word::new(0));
        slots.insert(hash, Entry { key, word }, &hasher);
        slots.note_forgettable(hash, &key, from(key));
    }
    let mut largest = slots.segments.iter().map(|it| it.slots());
    let largest = largest.by_ref().max().expect("a segment");
    let mut round = |now: u32| {
        let mut seen = 0;
        let (ended, earliest) = slots.look_around(usize::MAX, Some(from(now)), &hasher, |entry| {
            seen += 1;
            (entry.key > now).then_some(from(entry.key))
        });
        assert!(ended);
        assert_eq!(earliest, from(now + 1));
        (seen, slots.len())
    };
    // Segments that were split know no more than that of both halves: the first round may look at several.
    round(0);
    for now in 1..1000 {
        let (seen, len) = round(now);
        assert!(seen <= largest, "{seen} keys looked at for one of {KEYS}");
        assert_eq!(len, (KEYS - 1 - now) as usize);
    }
}

/// However many keys there are, what is moved at once is not more than three segments, and none of them is large.
#[test]
fn a_table_grows_by_parts() {
    let hasher = RandomState::new();
    let mut slots = Slots::new();
    for key in 0..200_000_u32 {
        let word = Word::new(0);
        slots.insert(hasher.hash_one(key), Entry { key, word }, &hasher);
    }
    let sizes = slots.segments.iter().map(|segment| segment.slots());
    let largest = sizes.max().expect("a segment");
    assert!(largest <= SIZES[SIZES.len() - 1] / 4 * 9, "{largest}");
    let segments = slots.segments.len();
    assert!((80..256).contains(&segments), "{segments}");
}
