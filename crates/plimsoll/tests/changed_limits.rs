//! A limit that is changed while it is used keeps in mind what was used.

use std::time::Duration;

use plimsoll::{
    Carry, FixedWindow, Gate, ManualClock, PenaltyBucket, Quota, Reason, Refresh, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};

/// What is available of a limit of `to` that takes the place of a limit of 5, of which 3 were used.
fn left<R: Rule>(rule: impl Fn(u32) -> R, to: u32, carry: Carry) -> u64 {
    let time = ManualClock::new();
    let gate = Gate::builder(rule(5)).clock(time.clock()).build();
    time.advance(Duration::from_millis(100));
    gate.try_acquire(3).expect("three of five").forget();
    gate.replace(rule(to), carry);
    gate.snapshot().available()
}

fn check<R: Rule>(name: &str, rule: impl Fn(u32) -> R + Copy) {
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
        let bucket = TokenBucket::per_second(1).with_burst(burst);
        PenaltyBucket::new(bucket).with_lockout(1, Duration::from_secs(60))
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
