//! Places for keys: a state that equals that of a new key makes room at once, and no other does.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use plimsoll::{
    Concurrency, Keyed, ManualClock, Queue, Quota, Reason, Rule, TokenBucket, WhenFull,
};

use crate::poll;

fn one_place<R: Rule + Clone>(rule: R, time: &ManualClock) -> Keyed<u8, R> {
    let builder = Keyed::builder(rule).clock(time.clock());
    builder.max_keys(1).queue(Queue::fifo(1)).build()
}

/// A key that had been in use was looked at again only after 100 ms.
#[test]
fn a_key_whose_permits_are_back_makes_room_at_once() {
    let time = ManualClock::new();
    let keyed = one_place(Concurrency::new(2), &time);
    for key in 0..20 {
        let held = keyed.try_acquire(&key, 2).unwrap();
        let other = keyed.try_acquire(&(key + 1), 1).unwrap_err();
        assert_eq!(other.reason(), Reason::KeysFull);
        drop(held);
    }
    assert_eq!(keyed.len(), 1);
}

/// The same when somebody waited for it.
#[test]
fn a_key_that_nobody_waits_for_any_more_makes_room_at_once() {
    let time = ManualClock::new();
    let keyed = one_place(Concurrency::new(1), &time);
    let held = keyed.try_acquire(&1, 1).unwrap();
    let mut waiting = Box::pin(keyed.acquire(&1, 1));
    assert!(poll::poll(&mut waiting).is_pending());
    drop(held);
    assert!(keyed.try_acquire(&2, 1).is_err());
    let permit = poll::poll(&mut waiting);
    assert!(permit.is_ready());
    assert!(keyed.try_acquire(&2, 1).is_err());
    drop(permit);
    assert!(keyed.try_acquire(&2, 1).is_ok());
    // And when it gave up.
    let rate = one_place(TokenBucket::per_second(1000), &time);
    assert!(rate.try_acquire(&1, 1000).is_ok());
    let mut waiting = Box::pin(rate.acquire(&1, 1));
    assert!(poll::poll(&mut waiting).is_pending());
    time.advance(Duration::from_millis(2));
    drop(waiting);
    assert!(rate.try_acquire(&2, 1).is_err());
    // Earlier than a key that is in use would be looked at again.
    let full = one_place(TokenBucket::per_second(1000).burst(10), &time);
    assert!(full.try_acquire(&1, 10).is_ok());
    let mut waiting = Box::pin(full.acquire(&1, 1));
    assert!(poll::poll(&mut waiting).is_pending());
    drop(waiting);
    time.advance(Duration::from_millis(9));
    assert!(full.try_acquire(&2, 1).is_err());
    time.advance(Duration::from_millis(1));
    assert!(full.try_acquire(&2, 1).is_ok());
}

/// The permit of a rate that was taken with `take_up_to` kept its key in use, though it has nothing to give back.
#[test]
fn a_permit_of_a_rate_that_is_held_keeps_no_place() {
    let time = ManualClock::new();
    let keyed = one_place(TokenBucket::per_second(10), &time);
    let held = keyed.take_up_to(&1, 4);
    assert_eq!(held.cost(), 4);
    time.advance(Duration::from_millis(400));
    assert!(keyed.try_acquire(&2, 1).is_ok());
    drop(held);

    // The same of a key that has a gate, because somebody has waited for it.
    let keyed = one_place(TokenBucket::per_second(1000).burst(10), &time);
    keyed.try_acquire(&1, 10).unwrap().forget();
    drop(poll::poll(&mut Box::pin(keyed.acquire(&1, 1))));
    time.advance(Duration::from_millis(4));
    let held = keyed.take_up_to(&1, 4);
    assert_eq!(held.cost(), 4);
    time.advance(Duration::from_millis(10));
    assert!(keyed.try_acquire(&2, 1).is_ok());
    drop(held);
}

/// What was undone leaves a state as good as new long before the moment that was noted when it was taken.
#[test]
fn a_key_whose_grant_is_undone_makes_room_at_once() {
    let time = ManualClock::new();
    let keyed = one_place(TokenBucket::greedy(Quota::per_hour(2)), &time);
    for key in 0..5 {
        let permit = keyed.try_acquire(&key, 2).unwrap();
        assert!(keyed.try_acquire(&(key + 1), 1).is_err());
        keyed.undo(&key, permit);
    }
}

/// Nothing is taken from a key by forgetting it: not the tokens that it has saved beyond those of a new key.
#[test]
fn what_a_key_has_saved_up_is_not_forgotten() {
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(10).burst(10).initial(0);
    for when_full in [WhenFull::Refuse, WhenFull::EvictLeastRecent] {
        let builder = Keyed::builder(rule.clone()).clock(time.clock());
        let keyed: Keyed<u8, _> = builder.max_keys(4).when_full(when_full).build();
        assert!(keyed.try_acquire(&1, 1).is_err());
        for _ in 0..100 {
            time.advance(Duration::from_secs(2));
            assert!(keyed.try_acquire(&2, 0).is_ok() || keyed.len() == 2);
            assert!(keyed.try_acquire(&1, 10).is_ok());
        }
    }
}

/// A full table of which every key is in use still finds the one that was given back, in whichever shard.
#[test]
fn the_one_key_that_is_given_back_is_found() {
    let time = ManualClock::new();
    let builder = Keyed::builder(Concurrency::new(1)).clock(time.clock());
    let keyed: Keyed<u64, _> = builder.max_keys(3000).build();
    let mut held: Vec<_> = (0..3000)
        .map(|key| keyed.try_acquire(&key, 1).unwrap())
        .collect();
    for key in 3000..3100 {
        assert!(keyed.try_acquire(&key, 1).is_err());
        drop(held.swap_remove(usize::try_from(key * 7919 % held.len() as u64).expect("a place")));
        held.push(keyed.try_acquire(&key, 1).unwrap());
    }
    assert_eq!(keyed.len(), 3000);
}

/// A shard in which everything is in use takes the place of another shard's least recently used.
#[test]
fn a_key_in_use_is_never_evicted() {
    let time = ManualClock::new();
    let builder = Keyed::builder(Concurrency::new(1)).clock(time.clock());
    let builder = builder.max_keys(2).when_full(WhenFull::EvictLeastRecent);
    let keyed: Keyed<u8, _> = builder.build();
    let held = keyed.try_acquire(&1, 1).unwrap();
    for key in 2..20 {
        time.advance(Duration::from_millis(1));
        assert!(keyed.try_acquire(&key, 1).is_ok());
    }
    let other = keyed.try_acquire(&20, 1).unwrap();
    assert_eq!(
        keyed.try_acquire(&21, 1).unwrap_err().reason(),
        Reason::KeysFull
    );
    assert!(keyed.try_acquire(&1, 1).is_err());
    drop((held, other));
    assert!(keyed.try_acquire(&1, 1).is_ok());
}

/// A permit for nothing has nothing to return. It held the gate of its key, which therefore kept its place.
#[test]
fn a_permit_of_cost_0_does_not_keep_its_key() {
    let table: Keyed<String, _> = Keyed::builder(Concurrency::new(1)).max_keys(1).build();
    let nothing = table.try_acquire("red", 0).unwrap();
    drop(table.try_acquire("blue", 1).unwrap());
    drop(nothing);
}

/// After the maximum was made smaller, new keys were refused, and up to three others evicted for each of them, until no more were known
/// than that.
#[test]
fn with_fewer_places_than_keys_a_new_key_still_takes_the_place_of_another() {
    for max_keys in [10, 1000] {
        let time = ManualClock::new();
        let builder = Keyed::builder(TokenBucket::per_second(1)).clock(time.clock());
        let builder = builder
            .max_keys(max_keys)
            .when_full(WhenFull::EvictLeastRecent);
        let keyed: Keyed<usize, _> = builder.build();
        for key in 0..max_keys {
            assert!(keyed.try_acquire(&key, 1).is_ok());
        }
        keyed.set_max_keys(max_keys / 5).unwrap();
        for key in max_keys..3 * max_keys {
            let before = keyed.len();
            assert!(keyed.try_acquire(&key, 1).is_ok(), "{key}");
            let after = keyed.len();
            assert!(
                after == before - 1 || after == max_keys / 5,
                "{before} {after}"
            );
        }
        assert_eq!(keyed.len(), max_keys / 5);
    }
}

thread_local! {
    static HASHES_LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// A key whose hash panics when no more hashes are left.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sometimes(u64);

impl Hash for Sometimes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        HASHES_LEFT.set(HASHES_LEFT.get().checked_sub(1).expect("another hash"));
        self.0.hash(state);
    }
}

/// A key whose hash panicked while the table grew for it kept a place for ever.
#[test]
fn a_key_whose_hash_panics_takes_no_place() {
    let time = ManualClock::new();
    for when_full in [WhenFull::Refuse, WhenFull::EvictLeastRecent] {
        let builder = Keyed::builder(TokenBucket::greedy(Quota::per_hour(1))).clock(time.clock());
        let keyed: Keyed<Sometimes, _> = builder.max_keys(500).when_full(when_full).build();
        let mut panics = 0;
        for key in 0..400 {
            HASHES_LEFT.set(key % 7 + 1);
            let take = || keyed.try_acquire(&Sometimes(key), 1).is_ok();
            panics += u32::from(catch_unwind(AssertUnwindSafe(take)).is_err());
            HASHES_LEFT.set(u64::MAX);
        }
        assert!(panics > 10, "{panics}");
        let known = (0..400).filter(|key| keyed.snapshot_of(&Sometimes(*key)).is_some());
        assert_eq!(keyed.len(), known.count());
    }
}
