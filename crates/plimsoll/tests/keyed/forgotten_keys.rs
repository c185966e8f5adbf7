//! A key is forgotten when its state equals that of a new key, so that nobody notices.

use std::time::Duration;

use plimsoll::{Carry, Concurrency, Keyed, ManualClock, Quota, Reason, Rule, Smooth, TokenBucket};

fn keyed<R: Rule + Clone>(rule: R, time: &ManualClock) -> Keyed<u32, R> {
    Keyed::builder(rule).max_keys(2).clock(time.clock()).build()
}

#[test]
fn a_key_that_begins_with_less_keeps_what_it_has_saved() {
    // It was forgotten when its bucket was full, and began again with nothing: it was never granted anything.
    let time = ManualClock::new();
    let rule = TokenBucket::per_second(10).initial(0);
    let keyed = keyed(rule, &time);
    let mut granted = 0;
    for _ in 0..100 {
        granted += u32::from(keyed.try_acquire(&1, 1).is_ok());
        time.advance(Duration::from_secs(2));
    }
    assert_eq!(granted, 99);
}

/// It was forgotten when it was idle, and the burst that it had stored with it.
#[test]
fn what_a_key_has_stored_is_not_forgotten() {
    let time = ManualClock::new();
    let keyed = keyed(Smooth::bursty(10.0, Duration::from_secs(1)), &time);
    for round in 0..5 {
        keyed.try_acquire(&1, 1).unwrap().forget();
        time.advance(Duration::from_secs(5));
        // Another key, for whom room could be made.
        keyed.try_acquire(&(10 + round % 2), 1).ok();
        let stored = keyed.snapshot_of(&1).map(|state| state.available());
        assert_eq!(stored, Some(10), "round {round}");
    }
}

/// Whoever finds no room looks for it: ten keys come before the next regular sweep.
#[test]
fn a_key_that_equals_a_new_one_makes_room() {
    let time = ManualClock::new();
    let span = Duration::from_micros(100);
    let keyed = keyed(TokenBucket::greedy(Quota::new(10, span)), &time);
    for key in 0..100 {
        assert!(keyed.try_acquire(&key, 10).is_ok(), "{key}");
        time.advance(span);
    }
}

/// Somebody holds the gate of a key that was forgotten since. It kept the limit that it had, and stayed open when all was
/// closed.
#[test]
fn the_gate_of_a_forgotten_key_follows_the_limit_of_all() {
    let slots: Keyed<String, _> = Keyed::new(Concurrency::new(1));
    let gate = slots.gate("red").unwrap();
    let held = gate.try_acquire(1).unwrap();
    slots.forget("red");
    slots.resize(3).unwrap();
    assert_eq!(gate.snapshot().limit(), 3);
    drop(gate.try_acquire(2).unwrap());
    slots.close();
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::Closed);
    drop(held);

    let rate: Keyed<String, _> = Keyed::new(TokenBucket::per_second(2));
    let gate = rate.gate("red").unwrap();
    rate.forget("red");
    rate.replace(TokenBucket::per_second(20), Carry::Reset);
    assert_eq!(gate.snapshot().limit(), 20);
}

/// A reading of the clock allowed one step of sweeping, so with ticks of four milliseconds it took four times as long.
#[test]
fn keys_are_forgotten_as_fast_with_a_clock_of_long_ticks() {
    let left = |tick: u64| {
        let time = ManualClock::new();
        let keyed: Keyed<u32, _> = Keyed::builder(TokenBucket::per_second(1))
            .clock(time.clock())
            .build();
        for key in 0..100_000 {
            assert!(keyed.try_acquire(&key, 1).is_ok());
        }
        time.advance(Duration::from_secs(2));
        // One call in each millisecond.
        for milli in 0..40 {
            if milli % tick == 0 {
                time.advance(Duration::from_millis(tick));
            }
            drop(keyed.try_acquire(&0, 1));
        }
        keyed.len()
    };
    let [short, long] = [1, 4].map(left);
    assert!(short < 80_000, "{short}");
    assert!(long < short + 5000, "{long}, {short}");
}
