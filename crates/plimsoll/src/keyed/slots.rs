//! The table of keys, which grows and shrinks a little at a time.
//!
//! hashbrown moves all entries at once when its table is full. With thousands of keys that is a pause, and with
//! small tables, where it is not, freed memory stays with the allocator in pieces. So the tables here are large, and
//! when one is full its entries move to the next a few at a time, with every new key and with every look around.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) word: u64,
}

pub(super) struct Slots<K> {
    table: HashTable<Entry<K>>,
    /// What has not been moved yet from the table before this one, and how many of its buckets are done.
    former: HashTable<Entry<K>>,
    moved: usize,
    /// How many buckets have been looked at in this round.
    seen: usize,
    /// Hashes once more, by a hash that is slow but that nobody can find collisions of, when there were
    /// more of them than by chance.
    salt: Option<RandomState>,
}

/// So many keys that look alike to a table do not come together by chance: each does with one in 128 of
/// those it meets on its way, and it meets few.
const COLLISIONS: usize = 16;

/// So many buckets of a former table are moved with each new key: all are moved long before the new one is full.
const STEP: usize = 64;

/// So few keys are moved at once when a table shrinks.
const FEW: usize = 1024;

impl<K> Slots<K> {
    pub(super) fn new() -> Self {
        Self {
            table: HashTable::new(),
            former: HashTable::new(),
            moved: 0,
            seen: 0,
            salt: None,
        }
    }

    /// Whether entries are still to be moved.
    pub(super) fn is_moving(&self) -> bool {
        !self.former.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len() + self.former.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<K>> {
        self.table.iter().chain(self.former.iter())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<K>> {
        self.table.iter_mut().chain(self.former.iter_mut())
    }

    /// Forgets the entry of a bucket, if there is one.
    fn take(table: &mut HashTable<Entry<K>>, bucket: usize) -> Option<Entry<K>> {
        let entry = table.get_bucket_entry(bucket).ok()?;
        Some(entry.remove().0)
    }
}

impl<K: Hash + Eq> Slots<K> {
    /// The hash by which a key is found here.
    #[inline]
    fn spread<Q: Hash + ?Sized>(&self, hash: u64, key: &Q) -> u64 {
        match &self.salt {
            None => hash,
            Some(salt) => salt.hash_one(key),
        }
    }

    #[inline]
    pub(super) fn find<Q>(&mut self, hash: u64, key: &Q) -> Option<&mut Entry<K>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.spread(hash, key);
        let is_it = |entry: &Entry<K>| entry.key.borrow() == key;
        if self.former.is_empty() {
            return self.table.find_mut(hash, is_it);
        }
        match self.table.find_bucket_index(hash, is_it) {
            Some(bucket) => self.table.get_bucket_mut(bucket),
            None => self.former.find_mut(hash, is_it),
        }
    }

    /// Adds a key that is not there.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry<K>, hasher: &impl BuildHasher) {
        if self.salt.is_none() && self.table.iter_hash(hash).nth(COLLISIONS).is_some() {
            self.add_salt();
        }
        let hash = self.spread(hash, &entry.key);
        self.move_on(STEP, hasher);
        if self.table.len() == self.table.capacity() {
            self.move_on(usize::MAX, hasher);
            self.resize(room_for(self.len()));
            self.move_on(STEP, hasher);
        }
        // There is room, so nothing is hashed.
        let salt = self.salt.as_ref();
        self.table
            .insert_unique(hash, entry, |entry| hash_of(&entry.key, salt, hasher));
    }

    pub(super) fn remove<Q>(&mut self, hash: u64, key: &Q) -> Option<Entry<K>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.spread(hash, key);
        for table in [&mut self.table, &mut self.former] {
            if let Ok(entry) = table.find_entry(hash, |entry| entry.key.borrow() == key) {
                return Some(entry.remove().0);
            }
        }
        None
    }

    /// Forgets the first entry of which `is_it` holds.
    pub(super) fn remove_where(&mut self, is_it: impl Fn(&Entry<K>) -> bool) -> Option<Entry<K>> {
        for table in [&mut self.table, &mut self.former] {
            let found = table
                .iter_buckets()
                .find(|bucket| table.get_bucket(*bucket).is_some_and(&is_it));
            if let Some(bucket) = found {
                return Self::take(table, bucket);
            }
        }
        None
    }

    /// Looks at the next `buckets` buckets and forgets what `keep` does not keep. Says whether that ends a
    /// round, in which everything was looked at that was there all the time.
    pub(super) fn look_around(
        &mut self,
        buckets: usize,
        hasher: &impl BuildHasher,
        mut keep: impl FnMut(&mut Entry<K>) -> bool,
    ) -> bool {
        if !self.former.is_empty() {
            self.move_on(buckets, hasher);
            if !self.former.is_empty() {
                return false;
            }
        }
        let end = self.seen.saturating_add(buckets);
        let end = end.min(self.table.num_buckets());
        for bucket in self.seen..end {
            let forget = self
                .table
                .get_bucket_mut(bucket)
                .is_some_and(|entry| !keep(entry));
            if forget {
                Self::take(&mut self.table, bucket);
            }
        }
        self.seen = end;
        if end < self.table.num_buckets() {
            return false;
        }
        self.seen = 0;
        // Give memory back when most of it is not needed.
        let len = self.table.len();
        if self.table.num_buckets() > 32 && len < self.table.num_buckets() / 8 {
            self.resize(len * 2);
            let few = len <= FEW;
            self.move_on(if few { usize::MAX } else { STEP }, hasher);
        }
        true
    }

    /// Begins a new round, with everything in one table.
    pub(super) fn start_round(&mut self, hasher: &impl BuildHasher) {
        self.move_on(usize::MAX, hasher);
        self.seen = 0;
    }

    /// Goes on with a table that has room for `capacity` keys. The former one must have been moved.
    fn resize(&mut self, capacity: usize) {
        self.former = std::mem::replace(&mut self.table, HashTable::with_capacity(capacity));
        self.moved = 0;
        self.seen = 0;
    }

    /// Moves the entries of so many buckets of the former table.
    #[inline]
    fn move_on(&mut self, buckets: usize, hasher: &impl BuildHasher) {
        if self.former.num_buckets() > 1 {
            self.move_some(buckets, hasher);
        }
    }

    #[cold]
    fn move_some(&mut self, buckets: usize, hasher: &impl BuildHasher) {
        let salt = self.salt.as_ref();
        let hash = |entry: &Entry<K>| hash_of(&entry.key, salt, hasher);
        let end = self.moved.saturating_add(buckets);
        let end = end.min(self.former.num_buckets());
        for bucket in self.moved..end {
            // Hashed before it is moved: that may panic.
            let hashed = self.former.get_bucket(bucket).map(hash);
            if let Some((hashed, entry)) = hashed.zip(Self::take(&mut self.former, bucket)) {
                self.table.insert_unique(hashed, entry, hash);
            }
        }
        self.moved = end;
        if self.former.is_empty() {
            self.former = HashTable::new();
            self.moved = 0;
        }
    }

    #[cold]
    fn add_salt(&mut self) {
        let salt = RandomState::new();
        // Hashed before anything is moved: it may panic.
        let hashes: Vec<u64> = self.iter().map(|entry| salt.hash_one(&entry.key)).collect();
        let mut salted = HashTable::with_capacity(self.len() + 1);
        let entries = self.table.drain().chain(self.former.drain());
        for (hash, entry) in hashes.into_iter().zip(entries) {
            salted.insert_unique(hash, entry, |entry| salt.hash_one(&entry.key));
        }
        *self = Self {
            table: salted,
            salt: Some(salt),
            ..Self::new()
        };
    }
}

/// For how many keys to make room when there are `len`.
///
/// Small tables grow in long strides: each leaves a hole in the heap, and those of many shards add up.
fn room_for(len: usize) -> usize {
    let grown = len + len / 8 + 3;
    [3, 28, 448, 7168]
        .into_iter()
        .find(|room| grown <= *room)
        .unwrap_or(grown)
}

fn hash_of<K: Hash>(key: &K, salt: Option<&RandomState>, hasher: &impl BuildHasher) -> u64 {
    match salt {
        Some(salt) => salt.hash_one(key),
        None => hasher.hash_one(key),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;
    use std::hash::{BuildHasher, RandomState};

    use super::{Entry, Slots};

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
                self.slots.insert(hash, Entry { key, word }, &self.hasher);
            }
        }

        fn remove(&mut self, key: u32) {
            let hash = self.hasher.hash_one(key);
            let removed = self.slots.remove(hash, &key).map(|entry| entry.word);
            assert_eq!(removed, self.model.remove(&key));
        }

        fn check(&mut self, keys: std::ops::Range<u32>) {
            assert_eq!(self.slots.len(), self.model.len());
            for key in keys {
                let hash = self.hasher.hash_one(key);
                let found = self.slots.find(hash, &key).map(|entry| entry.word);
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
            both.slots.look_around(700, &both.hasher, |entry| {
                let keep = entry.key >= threshold;
                if !keep {
                    both.model.remove(&entry.key);
                }
                keep
            });
            both.check(0..60_000);
        }
    }

    #[test]
    fn a_round_sees_everything_once_and_gives_memory_back() {
        let hasher = RandomState::new();
        let mut slots = Slots::new();
        for key in 0..20_000_u32 {
            slots.insert(hasher.hash_one(key), Entry { key, word: 0 }, &hasher);
        }
        slots.start_round(&hasher);
        let mut seen = 0;
        while !slots.look_around(1000, &hasher, |entry| {
            seen += 1;
            entry.key % 100 == 0
        }) {}
        assert_eq!((seen, slots.len()), (20_000, 200));
        assert!(slots.table.num_buckets() <= 512);
        assert!(!slots.is_moving());
    }
}
