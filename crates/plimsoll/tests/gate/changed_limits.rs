//! A limit that is changed while it is used keeps in mind what was used.

use std::time::Duration;

use plimsoll::{
    Bandwidths, Carry, FixedWindow, Gate, Keyed, ManualClock, PenaltyBucket, Quota, Reason,
    Refresh, Rule, SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};

/// What is available of a limit of `to` that takes the place of a limit of 5, of which 3 were used.
fn left<R: Rule>(rule: impl Fn(u64) -> R, to: u64, carry: Carry) -> u64 {
    let time = ManualClock::new();
    let gate = Gate::builder(rule(5)).clock(time.clock()).build();
    time.advance(Duration::from_millis(100));
    gate.try_acquire(3).expect("three of five").forget();
    gate.replace(rule(to), carry);
    gate.snapshot().available()
}

fn check<R: Rule>(name: &str, rule: impl Fn(u64) -> R + Copy) {
    let all = |carry| [10, 5, 3, 2].map(|to| left(rule, to, carry));
    assert_eq!(all(Carry::AsIs), [7, 2, 0, 0], "{name}: as it is");
    assert_eq!(all(Carry::Reset), [10, 5, 3, 2], "{name}: anew");
    // Three of five are six of ten, and two of three.
    assert_eq!(
        all(Carry::Proportional),
        [4, 2, 1, 0],
        "{name}: in proportion"
    );
}

#[test]
fn what_was_used_still_counts() {
    check("fixed window", |limit| {
        FixedWindow::new(Quota::per_minute(limit))
    });
    check("sliding window", |limit| {
        SlidingWindow::new(Quota::per_minute(limit), 6)
    });
    check("sliding counter", |limit| {
        SlidingCounter::new(Quota::per_minute(limit))
    });
    check("sliding log", |limit| {
        SlidingLog::new(Quota::per_minute(limit))
    });
    check("refresh", |limit| Refresh::new(Quota::per_minute(limit)));
}

#[test]
fn nobody_waits_for_less_because_of_a_change() {
    let time = ManualClock::new();
    let rule = |limit| FixedWindow::new(Quota::per_minute(limit));
    let gate = Gate::builder(rule(2)).clock(time.clock()).build();
    gate.try_acquire(2).unwrap().forget();
    for _ in 0..10 {
        time.advance(Duration::from_secs(1));
        gate.replace(rule(2), Carry::AsIs);
        assert!(gate.try_acquire(1).is_err());
    }
}

#[test]
fn whoever_is_locked_out_stays_so() {
    let time = ManualClock::new();
    let rule = |burst| {
        let bucket = TokenBucket::per_second(1).burst(burst);
        PenaltyBucket::new(bucket).lockout(1, Duration::from_secs(60))
    };
    let gate = Gate::builder(rule(1)).clock(time.clock()).build();
    gate.try_acquire(1).unwrap().forget();
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::LockedOut);
    gate.replace(rule(10), Carry::AsIs);
    time.advance(Duration::from_secs(30));
    assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::LockedOut);
    time.advance(Duration::from_secs(30));
    assert!(gate.try_acquire(1).is_ok());
}

/// What is available of a limit of `to` that takes the place of a limit of 10, all of which was used: of a gate,
/// of a key, and of a key that has a gate of its own.
fn left_of_ten<R: Rule + Clone>(rule: impl Fn(u64) -> R, to: u64, carry: Carry) -> [u64; 3] {
    let time = ManualClock::new();
    let gate = Gate::builder(rule(10)).clock(time.clock()).build();
    gate.try_acquire(10).expect("ten of ten").forget();
    gate.replace(rule(to), carry);
    let keyed: Keyed<u64, R> = Keyed::builder(rule(10)).clock(time.clock()).build();
    keyed.try_acquire(&1, 10).expect("ten of ten").forget();
    let own = keyed.gate(&2).expect("there is room");
    own.try_acquire(10).expect("ten of ten").forget();
    keyed.replace(rule(to), carry);
    let key = keyed.snapshot_of(&1).expect("it is known");
    let all = [gate.snapshot(), key, own.snapshot()];
    all.map(|snapshot| snapshot.available())
}

#[test]
fn what_was_used_stays_used_and_the_rest_is_available() {
    // A bucket could keep its tokens, or their proportion; to keep what was used there was no way.
    fn check<R: Rule + Clone>(rule: impl Fn(u64) -> R + Copy) {
        let name = format!("{:?}", rule(1));
        assert_eq!(left_of_ten(rule, 100, Carry::Used), [90; 3], "{name}");
        assert_eq!(left_of_ten(rule, 10, Carry::Used), [0; 3], "{name}");
        assert_eq!(left_of_ten(rule, 3, Carry::Used), [0; 3], "{name}");
    }
    check(|limit| TokenBucket::greedy(Quota::per_minute(limit)));
    check(|limit| TokenBucket::interval(Quota::per_minute(limit)));
    check(|limit| PenaltyBucket::new(TokenBucket::greedy(Quota::per_minute(limit))));
    check(|limit| Bandwidths::new([TokenBucket::greedy(Quota::per_minute(limit))]));
    check(|limit| FixedWindow::new(Quota::per_minute(limit)));
    check(|limit| SlidingWindow::new(Quota::per_minute(limit), 6));
    check(|limit| SlidingCounter::new(Quota::per_minute(limit)));
    check(|limit| SlidingLog::new(Quota::per_minute(limit)));
    check(|limit| Refresh::new(Quota::per_minute(limit)));
}

#[test]
fn a_bucket_kept_as_it_is_keeps_its_tokens() {
    let bucket = |burst| TokenBucket::greedy(Quota::per_minute(burst));
    assert_eq!(left_of_ten(bucket, 100, Carry::AsIs), [0; 3]);
}

#[test]
fn a_debt_stays_owed_whatever_the_limit_becomes() {
    let time = ManualClock::new();
    let wait = |from: u64, to: u64| {
        let bucket = |burst| TokenBucket::per_second(1).burst(burst);
        let gate = Gate::builder(bucket(from)).clock(time.clock()).build();
        gate.charge(25);
        gate.replace(bucket(to), Carry::Used);
        gate.try_acquire(1).unwrap_err().retry_after()
    };
    // Twenty-five were used of a limit of twenty, of ten, of five.
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(wait(10, 20), seconds(6));
    assert_eq!(wait(10, 10), seconds(16));
    assert_eq!(wait(10, 5), seconds(21));
}

#[test]
fn what_was_used_is_not_forgotten_by_a_smaller_limit_in_between() {
    // It was cut off at the smaller limit, and the larger one then had room for what had been used already.
    fn check<R: Rule + Clone>(rule: impl Fn(u64) -> R) {
        let time = ManualClock::new();
        let gate = Gate::builder(rule(10)).clock(time.clock()).build();
        gate.try_acquire(10).unwrap().forget();
        gate.replace(rule(2), Carry::Used);
        gate.replace(rule(10), Carry::Used);
        assert_eq!(gate.snapshot().available(), 0, "{:?}", rule(1));
    }
    check(|limit| TokenBucket::greedy(Quota::per_minute(limit)));
    check(|limit| FixedWindow::new(Quota::per_minute(limit)));
    check(|limit| SlidingWindow::new(Quota::per_minute(limit), 6));
    check(|limit| SlidingCounter::new(Quota::per_minute(limit)));
    check(|limit| SlidingLog::new(Quota::per_minute(limit)));
}

#[test]
fn a_log_keeps_its_times_when_its_limit_changes() {
    // What was used began to count anew with every change.
    let time = ManualClock::new();
    let rule = |limit| SlidingLog::new(Quota::per_minute(limit));
    let gate = Gate::builder(rule(2)).clock(time.clock()).build();
    gate.try_acquire(2).unwrap().forget();
    time.advance(Duration::from_secs(59));
    gate.replace(rule(3), Carry::Used);
    assert_eq!(gate.snapshot().available(), 1);
    time.advance(Duration::from_secs(1));
    assert_eq!(gate.snapshot().available(), 3);
}

#[test]
fn what_was_reserved_ahead_is_still_missing_from_the_cycles_to_come() {
    // The debt was dropped with the change, and the cycles given away twice.
    let time = ManualClock::new();
    let rule = |limit| Refresh::new(Quota::per_second(limit)).max_wait(Duration::from_secs(60));
    let gate = Gate::builder(rule(5)).clock(time.clock()).build();
    let _ahead = [(); 3].map(|()| gate.reserve(5).unwrap());
    gate.replace(rule(5), Carry::Used);
    assert_eq!(
        gate.reserve(5).unwrap().wait(),
        Some(Duration::from_secs(3))
    );
}

#[test]
fn the_time_that_is_owed_stays_owed_and_stored_permits_that_were_used_stay_used() {
    let time = ManualClock::new();
    let gate = Gate::builder(Smooth::bursty(10.0, Duration::from_secs(1)))
        .clock(time.clock())
        .build();
    time.advance(Duration::from_secs(1));
    gate.try_acquire(4).unwrap().forget();
    gate.replace(Smooth::bursty(20.0, Duration::from_secs(1)), Carry::Used);
    assert_eq!(
        gate.snapshot().available(),
        16,
        "all but the four of twenty"
    );
    gate.try_acquire(36).unwrap().forget();
    gate.replace(Smooth::bursty(10.0, Duration::from_secs(1)), Carry::Used);
    let denied = gate.try_acquire(1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
}

#[test]
fn a_grant_is_not_undone_out_of_what_others_have_taken_since_a_change() {
    // A changed limit begins with a sum. What had been replenished before, or was cut off by a smaller limit, was
    // undone out of what others took afterwards.
    fn check<R: Rule + Clone>(rule: impl Fn(u64) -> R, carry: Carry, seconds: u64) {
        let time = ManualClock::new();
        let gate = Gate::builder(rule(10)).clock(time.clock()).build();
        let unused = gate.try_acquire(5).unwrap();
        time.advance(Duration::from_secs(seconds));
        gate.replace(rule(3), carry);
        time.advance(Duration::from_nanos(1));
        gate.take_up_to(3).forget();
        unused.undo();
        let name = rule(1);
        assert_eq!(
            gate.snapshot().available(),
            0,
            "{name:?} {carry:?} {seconds}"
        );
    }
    for carry in [Carry::AsIs, Carry::Used, Carry::Proportional, Carry::Reset] {
        for seconds in [0, 3600] {
            check(
                |limit| TokenBucket::greedy(Quota::per_hour(limit)),
                carry,
                seconds,
            );
            check(
                |limit| TokenBucket::interval(Quota::per_hour(limit)),
                carry,
                seconds,
            );
            check(
                |limit| FixedWindow::new(Quota::per_hour(limit)),
                carry,
                seconds,
            );
            check(
                |limit| SlidingWindow::new(Quota::per_hour(limit), 6),
                carry,
                seconds,
            );
            check(
                |limit| SlidingCounter::new(Quota::per_hour(limit)),
                carry,
                seconds,
            );
            check(|limit| Refresh::new(Quota::per_hour(limit)), carry, seconds);
        }
        check(|limit| SlidingLog::new(Quota::per_hour(limit)), carry, 3600);
    }
}

#[test]
fn a_log_still_knows_after_a_change_what_is_whose() {
    let time = ManualClock::new();
    let rule = |limit| SlidingLog::new(Quota::per_hour(limit));
    let gate = Gate::builder(rule(10)).clock(time.clock()).build();
    let unused = gate.try_acquire(5).unwrap();
    time.advance(Duration::from_secs(1));
    gate.replace(rule(3), Carry::Used);
    assert_eq!(gate.snapshot().available(), 0);
    unused.undo();
    assert_eq!(gate.snapshot().available(), 3);
}
