//! Limits of keys change, for one key or for all, while they are in use.

use std::panic::catch_unwind;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use plimsoll::{
    Carry, Concurrency, Denied, Keyed, ManualClock, PerKey, Permit, Queue, Quota, Reason,
    SlidingWindow, TokenBucket,
};

use crate::poll;

fn hourly(tokens: u64) -> TokenBucket {
    TokenBucket::greedy(Quota::per_hour(tokens))
}

fn keyed(max_keys: usize, time: &ManualClock) -> Keyed<u64, TokenBucket> {
    let builder = Keyed::builder(hourly(10)).clock(time.clock());
    builder.max_keys(max_keys).queue(Queue::fifo(4)).build()
}

fn reason(answer: Result<Permit<'_>, Denied>) -> Reason {
    answer.expect_err("it is refused").reason()
}

/// A key that nobody had used yet began with the tokens of the limit of all keys: 10 of 100.
#[test]
fn a_new_key_begins_as_its_own_limit_begins() {
    let time = ManualClock::new();
    for carry in [Carry::AsIs, Carry::Proportional, Carry::Reset] {
        let keyed = keyed(4, &time);
        keyed.set_limit(&1, hourly(100), carry).unwrap();
        assert_eq!(keyed.standing(&1).remaining.unwrap(), 100);
        assert!(keyed.try_acquire(&1, 100).is_ok());
        keyed.set_limit(&2, hourly(100).initial(7), carry).unwrap();
        assert_eq!(keyed.take_up_to(&2, 100).cost(), 7);
    }
}

/// A key that has used something keeps what `carry` says, whether its state is a word, wide or a gate.
#[test]
fn a_known_key_carries_over_what_it_has() {
    let time = ManualClock::new();
    let keyed = keyed(8, &time);
    for key in 0..3 {
        assert!(keyed.try_acquire(&key, 4).is_ok());
    }
    let gate = keyed.gate(&2).unwrap();
    for (key, carry, left) in [(0, Carry::AsIs, 6), (1, Carry::Proportional, 60)] {
        keyed.set_limit(&key, hourly(100), carry).unwrap();
        assert_eq!(keyed.standing(&key).remaining.unwrap(), left);
        keyed.set_limit(&key, hourly(50), Carry::AsIs).unwrap();
        assert_eq!(keyed.standing(&key).remaining.unwrap(), left.min(50));
    }
    keyed
        .set_limit(&2, hourly(100), Carry::Proportional)
        .unwrap();
    assert_eq!(gate.standing().remaining.unwrap(), 60);
    // The limit of all keys changes; theirs does not.
    keyed.replace(hourly(3), Carry::Reset);
    assert_eq!(keyed.standing(&2).limit, 100);
    assert_eq!(keyed.standing(&3).limit, 3);
}

/// Keys with limits of their own were never forgotten, so that they filled the table for good.
#[test]
fn a_limit_of_its_own_outlives_the_state_and_takes_no_place() {
    let time = ManualClock::new();
    let keyed = keyed(4, &time);
    for key in 0..4 {
        keyed.set_limit(&key, hourly(100), Carry::AsIs).unwrap();
    }
    assert_eq!(keyed.len(), 0);
    assert_eq!(
        keyed
            .set_limit(&9, hourly(100), Carry::AsIs)
            .unwrap_err()
            .reason(),
        Reason::KeysFull
    );
    for round in 0..3 {
        // The places are for states of any keys.
        for key in 0..4 {
            assert!(keyed.try_acquire(&(10 + key), 10).is_ok(), "round {round}");
        }
        time.advance(Duration::from_secs(3600));
        for key in 0..4 {
            assert!(keyed.try_acquire(&key, 100).is_ok(), "round {round}");
        }
        assert_eq!(reason(keyed.try_acquire(&10, 1)), Reason::KeysFull);
        time.advance(Duration::from_secs(3600));
    }
    // Forgotten by name it is back at the limit of all, and makes room for another limit.
    assert!(keyed.forget(&1));
    assert!(!keyed.forget(&1));
    assert_eq!(reason(keyed.try_acquire(&1, 11)), Reason::TooLarge);
    assert!(keyed.set_limit(&9, hourly(100), Carry::AsIs).is_ok());
}

/// The terms told for a key were those of the limit of all keys.
#[test]
fn the_standing_of_a_key_is_that_of_its_own_limit() {
    let time = ManualClock::new();
    let keyed = keyed(4, &time);
    let own = TokenBucket::per_second(5).burst(20);
    keyed.set_limit(&1, own, Carry::AsIs).unwrap();
    let check = |used: u64| {
        let standing = PerKey::standing(&keyed, &1);
        assert_eq!(standing, keyed.standing(&1));
        assert_eq!(standing.window, Some(Duration::from_secs(4)));
        assert_eq!((standing.limit, standing.remaining), (20, Some(20 - used)));
        let promise = keyed.promise();
        assert_eq!((promise.limit, promise.remaining), (10, None));
        assert_eq!(keyed.standing(&2).remaining(None), promise);
    };
    check(0);
    assert!(keyed.try_acquire(&1, 3).is_ok());
    check(3);
    let gate = keyed.gate(&1).unwrap();
    check(3);
    drop(gate);
    assert_eq!(reason(keyed.try_acquire(&1, 21)), Reason::TooLarge);
}

/// After closing, every demand of every key is refused: of those that are words, wide, gates, or not known.
#[test]
fn a_closed_limit_refuses_every_key_and_whoever_waits() {
    let time = ManualClock::new();
    let keyed = keyed(4, &time);
    assert!(keyed.try_acquire(&1, 3).is_ok());
    assert!(keyed.try_acquire(&2, 10).is_ok());
    let mut waiting = Box::pin(keyed.acquire(&2, 1));
    assert!(poll::poll(&mut waiting).is_pending());
    let undone = keyed.try_acquire(&1, 2).unwrap();
    keyed.close();
    for _ in 0..3 {
        for key in 1..4 {
            assert_eq!(reason(keyed.try_acquire(&key, 1)), Reason::Closed);
            assert_eq!(reason(keyed.try_acquire(&key, 11)), Reason::Closed);
            assert_eq!(
                keyed.estimate(&key, 0).unwrap_err().reason(),
                Reason::Closed
            );
            assert_eq!(keyed.take_up_to(&key, 1).cost(), 0);
            let mut refused = Box::pin(keyed.acquire(&key, 1));
            assert!(
                matches!(poll::poll(&mut refused), Poll::Ready(Err(denied)) if denied.reason() == Reason::Closed)
            );
            assert_eq!(
                reason(keyed.gate(&key).unwrap().try_acquire(1)),
                Reason::Closed
            );
        }
        time.advance(Duration::from_secs(10_000));
    }
    assert!(
        matches!(poll::poll(&mut waiting), Poll::Ready(Err(denied)) if denied.reason() == Reason::Closed)
    );
    keyed.undo(&1, undone);

    let slots: Keyed<u64, _> = Keyed::new(Concurrency::new(2));
    let permit = slots.try_acquire(&1, 2).unwrap();
    slots.close();
    assert_eq!(
        reason(slots.gate(&5).unwrap().try_acquire(1)),
        Reason::Closed
    );
    drop(permit);
    assert_eq!(slots.snapshot().in_use(), 0);
    assert_eq!(reason(slots.try_acquire(&1, 1)), Reason::Closed);
    assert_eq!(slots.try_acquire(&1, 1).unwrap_err().remaining(), 2);
}

#[test]
fn resizing_serves_whoever_waits_and_keeps_count_of_permits() {
    let keyed: Keyed<u8, _> = Keyed::builder(Concurrency::new(2))
        .queue(Queue::fifo(4))
        .build();
    let held = [1, 2].map(|key| keyed.try_acquire(&key, 2).unwrap());
    keyed
        .set_limit(&3, Concurrency::new(1), Carry::AsIs)
        .unwrap();
    let mut waiting = Box::pin(keyed.acquire(&1, 2));
    assert!(poll::poll(&mut waiting).is_pending());
    keyed.resize(4).unwrap();
    let served = poll::poll(&mut waiting);
    assert!(matches!(served, Poll::Ready(Ok(_))));
    assert_eq!(keyed.snapshot_of(&1).unwrap().available(), 0);
    assert_eq!(keyed.snapshot_of(&2).unwrap().available(), 2);
    assert!(keyed.try_acquire(&9, 4).is_ok());
    keyed.resize(1).unwrap();
    assert_eq!(reason(keyed.try_acquire(&2, 1)), Reason::Exhausted);
    assert_eq!(keyed.snapshot_of(&2).unwrap().in_use(), 2);
    drop((held, served));
    assert!(keyed.try_acquire(&2, 1).is_ok());
    assert_eq!(reason(keyed.try_acquire(&2, 2)), Reason::TooLarge);
    assert_eq!(keyed.standing(&3).limit, 1);
    assert_eq!(keyed.resize(0).unwrap_err().field(), "limit");
}

#[test]
fn a_thread_can_wait_for_a_key() {
    let keyed: Keyed<u8, _> = Keyed::builder(Concurrency::new(1))
        .queue(Queue::fifo(4))
        .build();
    let held = keyed.acquire_blocking(&1, 1).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| keyed.acquire_blocking(&1, 1).map(|permit| permit.cost()));
        while keyed.snapshot().waiters() == 0 {
            thread::yield_now();
        }
        drop(held);
        assert_eq!(waits.join().unwrap(), Ok(1));
    });
}

#[test]
fn no_keys_at_all_is_not_a_bound() {
    let builder = || Keyed::<u8, _>::builder(hourly(1));
    let invalid = builder().try_max_keys(0).unwrap_err();
    assert_eq!(invalid.to_string(), "`max_keys` is 0: expected at least 1");
    assert!(catch_unwind(|| builder().max_keys(0)).is_err());
    assert!(builder().try_max_keys(1).is_ok());
}

/// A future of a key is a type with a name, that can be kept and sent.
#[test]
fn the_future_of_a_key_can_be_kept_and_sent() {
    fn is_send<T: Send + Unpin>(_: &T) {}
    let keyed: Keyed<String, _> = Keyed::new(TokenBucket::per_second(1));
    let future: plimsoll::AcquireKey<'_, String, str, TokenBucket, _> = keyed.acquire("anna", 1);
    is_send(&future);
    assert!(keyed.is_empty(), "nothing happens before it is polled");
    let windows: Keyed<String, _> = Keyed::new(SlidingWindow::new(Quota::per_second(1), 2));
    is_send(&windows.acquire("anna", 1));
}

/// Changes reach the gate of a key when the lock of its shard is free, so two that are made at the same time may reach it in
/// another order than the table. It then followed another limit than the table for good; and shards could end up with
/// different limits.
#[test]
fn all_keys_follow_the_last_of_changes_made_at_the_same_time() {
    for round in 0..200 {
        let keyed: Keyed<u8, _> = Keyed::builder(hourly(1)).build();
        let gate = keyed.gate(&1).unwrap();
        thread::scope(|scope| {
            for limit in [10, 20, 30] {
                let keyed = &keyed;
                scope.spawn(move || keyed.replace(hourly(limit), Carry::Reset));
            }
        });
        let limit = keyed.promise().limit;
        assert_eq!(gate.standing().limit, limit, "round {round}");
        for key in 2..200 {
            assert_eq!(keyed.standing(&key).limit, limit, "round {round}");
        }
    }
}

/// Ten used of ten, then a limit of a hundred: ninety are left, for a key and for all.
#[test]
fn what_was_used_stays_used_when_a_limit_changes() {
    let time = ManualClock::new();
    let keyed = keyed(8, &time);
    for key in 0..3 {
        assert!(keyed.try_acquire(&key, 10).is_ok());
    }
    let gate = keyed.gate(&2).unwrap();
    keyed.set_limit(&0, hourly(100), Carry::Used).unwrap();
    assert_eq!(keyed.standing(&0).remaining.unwrap(), 90);
    keyed.replace(hourly(100), Carry::Used);
    assert_eq!(keyed.standing(&1).remaining.unwrap(), 90);
    assert_eq!(gate.standing().remaining.unwrap(), 90);
}

/// A change that begins a state anew no longer knows of the grants before it: undoing one would free what others hold.
#[test]
fn what_was_granted_before_a_fresh_start_cannot_be_undone() {
    let time = ManualClock::new();
    let keyed = keyed(8, &time);
    let before = [0, 1].map(|key| keyed.try_acquire(&key, 4).unwrap());
    time.advance(Duration::from_nanos(1));
    keyed.set_limit(&0, hourly(20), Carry::Reset).unwrap();
    keyed.replace(hourly(20), Carry::Reset);
    for (key, permit) in [0, 1].into_iter().zip(before) {
        assert!(keyed.try_acquire(&key, 20).is_ok());
        keyed.undo(&key, permit);
        assert_eq!(keyed.standing(&key).remaining.unwrap(), 0);
    }
    // What was granted afterwards can.
    time.advance(Duration::from_secs(3600));
    let after = keyed.try_acquire(&1, 5).unwrap();
    keyed.undo(&1, after);
    assert_eq!(keyed.standing(&1).remaining.unwrap(), 20);
}
