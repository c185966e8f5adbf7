//! A permit ends once: after that nothing done with it loses or makes anything.

use std::time::Duration;

use plimsoll::{
    Concurrency, Demand, Gate, Keyed, LimiterExt, ManualClock, Outcome, Quota, Rule, SlidingLog,
    TokenBucket,
};

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Gate<R> {
    Gate::builder(rule).clock(time.clock()).build()
}

/// Giving back and then undoing gave back twice: a limit of 1 became one of 2 for good.
#[test]
fn what_was_given_back_is_not_undone_as_well() {
    let time = ManualClock::new();
    for limit in [1, 7] {
        let slots = gate(Concurrency::new(limit), &time);
        let mut permit = slots.try_acquire(limit).unwrap();
        permit.give_back(Outcome::Success);
        permit.undo();
        assert_eq!(slots.snapshot().available(), limit);
        assert_eq!(slots.take_up_to(u64::MAX).cost(), limit);
        assert_eq!(slots.snapshot().granted_total(), 2, "it was used");
    }
}

/// The work of a rate's permit is done once it is given back, so undoing it would let more through than the rate.
#[test]
fn what_was_given_back_to_a_rate_is_used() {
    let time = ManualClock::new();
    let bucket = gate(TokenBucket::per_second(10), &time);
    let mut permit = bucket.try_acquire(4).unwrap();
    permit.give_back(Outcome::Success);
    permit.undo();
    assert_eq!(bucket.snapshot().available(), 6);

    let mut permit = bucket.attempt_owned(Demand::of(4)).unwrap();
    permit.give_back(Outcome::Success);
    LimiterExt::undo(&bucket, permit);
    assert_eq!(bucket.snapshot().available(), 2);

    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    let mut permit = keyed.try_acquire("anna", 4).unwrap();
    permit.give_back(Outcome::Success);
    keyed.undo("anna", permit);
    assert_eq!(keyed.standing("anna").remaining.unwrap(), 6);
}

/// Whatever was merged into a permit that had been given back was never given back itself.
#[test]
fn nothing_is_merged_with_what_was_given_back() {
    let time = ManualClock::new();
    let slots = gate(Concurrency::new(5), &time);
    let mut ended = slots.try_acquire(2).unwrap();
    ended.give_back(Outcome::Ignore);
    let other = ended.merge(slots.try_acquire(3).unwrap()).unwrap_err();
    assert_eq!(slots.snapshot().in_use(), 3);

    // Nor the other way round.
    let mut alive = other;
    let ended = alive.merge(ended).unwrap_err();
    assert_eq!((alive.cost(), ended.cost()), (3, 0));
    drop((alive, ended));
    assert_eq!(slots.snapshot().in_use(), 0);
}

/// What is split off a permit that had been given back could be undone by its limiter.
#[test]
fn nothing_is_split_off_what_was_given_back() {
    let time = ManualClock::new();
    let slots = gate(Concurrency::new(5), &time);
    let mut ended = slots.try_acquire(4).unwrap();
    ended.give_back(Outcome::Ignore);
    assert_eq!(ended.cost(), 0);
    assert!(ended.split(1).is_none());
    let nothing = ended.split(0).unwrap().into_owned();
    nothing.undo();
    ended.into_owned().undo();
    assert_eq!(slots.take_up_to(u64::MAX).cost(), 5);
}

/// Permits that do not know their limiter all looked alike, so those of different limiters became one.
#[test]
fn permits_that_do_not_know_their_limiter_are_not_merged() {
    let time = ManualClock::new();
    let (here, there) = (
        gate(TokenBucket::per_second(10), &time),
        gate(TokenBucket::per_second(10), &time),
    );
    let mut one = here.attempt_owned(Demand::of(1)).unwrap();
    let other = one.merge(there.attempt_owned(Demand::of(2)).unwrap());
    LimiterExt::undo(&there, other.unwrap_err());
    LimiterExt::undo(&here, one);
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(10))
        .clock(time.clock())
        .build();
    let mut one = keyed.try_acquire("anna", 1).unwrap();
    let other = one.merge(keyed.try_acquire("bert", 2).unwrap());
    keyed.undo("bert", other.unwrap_err());
    keyed.undo("anna", one);
    let left = [
        here.snapshot().available(),
        there.snapshot().available(),
        keyed.standing("anna").remaining.unwrap(),
        keyed.standing("bert").remaining.unwrap(),
    ];
    assert_eq!(left, [10; 4]);
}

/// A permit has one moment. Undoing the sum of two must not reach what others took at the newer one.
#[test]
fn undoing_a_sum_never_makes_more_available_than_undoing_each() {
    let time = ManualClock::new();
    let quota = Quota::new(10, Duration::from_secs(10));
    let log = gate(SlidingLog::new(quota), &time);
    let mut older = log.try_acquire(2).unwrap();
    time.advance(Duration::from_secs(6));
    older.merge(log.try_acquire(3).unwrap()).unwrap();
    log.try_acquire(4).unwrap().forget();
    older.undo();
    assert!(log.snapshot().in_use() >= 4);
    // The others' are still there when the older moment has left the window.
    time.advance(Duration::from_secs(5));
    assert!(log.snapshot().in_use() >= 4);
    time.advance(Duration::from_secs(5));
    assert_eq!(log.snapshot().in_use(), 0);

    // Of one moment it is exact.
    let mut one = log.try_acquire(2).unwrap();
    one.merge(log.try_acquire(3).unwrap()).unwrap();
    one.undo();
    assert_eq!(log.snapshot().available(), 10);
    // What is given back needs no moment.
    let slots = gate(Concurrency::new(5), &time);
    let mut older = slots.try_acquire(2).unwrap();
    time.advance(Duration::from_secs(1));
    older.merge(slots.try_acquire(3).unwrap()).unwrap();
    older.undo();
    assert_eq!(slots.snapshot().in_use(), 0);
}

/// A sum of what was granted before a reset and after it is not undone: a part of it was made good by the reset.
#[test]
fn a_sum_is_undone_only_if_both_can_be() {
    let time = ManualClock::new();
    for reversed in [false, true] {
        for passed in [0, 1] {
            let bucket = gate(TokenBucket::per_second(10), &time);
            let before = bucket.try_acquire(4).unwrap();
            bucket.reset();
            time.advance(Duration::from_nanos(passed));
            let after = bucket.try_acquire(3).unwrap();
            bucket.try_acquire(7).unwrap().forget();
            let (mut one, other) = if reversed {
                (after, before)
            } else {
                (before, after)
            };
            one.merge(other).unwrap();
            one.undo();
            assert_eq!(bucket.snapshot().available(), 0);
        }
    }
}

#[test]
fn a_permit_is_no_larger_than_its_limiter_and_its_grant() {
    assert!(size_of::<plimsoll::Permit<'_>>() <= 48);
}
