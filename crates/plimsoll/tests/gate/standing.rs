//! What users are told of a limit: how much is left, and what is promised.

use std::time::Duration;

use plimsoll::{
    All, Concurrency, FixedWindow, Gate, Keyed, Limiter, ManualClock, Quota, SlidingCounter,
    SlidingLog, SlidingWindow, Standing, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_bucket_tells_of_the_next_token_and_of_the_last() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(4))
        .clock(time.clock())
        .build();
    assert_eq!(gate.standing(), Standing::new(4, 4).window(SECOND));
    gate.try_acquire(3).expect("there are 4").forget();
    let standing = gate.standing();
    assert_eq!((standing.limit, standing.remaining.unwrap()), (4, 1));
    assert_eq!(standing.more_after, Some(SECOND / 4));
    assert_eq!(standing.reset, Some(SECOND * 3 / 4));
}

#[test]
fn a_window_is_full_again_when_it_ends() {
    let time = ManualClock::new();
    let gate = Gate::builder(FixedWindow::new(Quota::per_minute(10)))
        .clock(time.clock())
        .build();
    time.advance(SECOND * 90);
    gate.try_acquire(4).expect("there are 10").forget();
    let standing = gate.standing();
    assert_eq!(standing.remaining.unwrap(), 6);
    assert_eq!(standing.more_after, Some(SECOND * 30));
    assert_eq!(standing.reset, Some(SECOND * 30));
}

#[test]
fn windows_are_whole_whenever_they_are_asked_for() {
    let time = ManualClock::new();
    let minute = Quota::per_minute(10);
    let limiters: [(&str, Box<dyn Limiter>); 5] = [
        ("fixed", Box::new(gate(&time, FixedWindow::new(minute)))),
        (
            "sliding",
            Box::new(gate(&time, SlidingWindow::new(minute, 6))),
        ),
        ("log", Box::new(gate(&time, SlidingLog::new(minute)))),
        (
            "counter",
            Box::new(gate(&time, SlidingCounter::new(minute))),
        ),
        ("bucket", Box::new(gate(&time, TokenBucket::greedy(minute)))),
    ];
    for seconds in [0, 1, 59, 60, 61] {
        time.advance(SECOND * seconds);
        for (name, limiter) in &limiters {
            let standing = limiter.standing();
            assert_eq!(standing.limit, 10, "{name}");
            assert_eq!(standing.window, Some(SECOND * 60), "{name}");
            assert!(!standing.returns, "{name}");
        }
    }
    let slots = Gate::new(Concurrency::new(3)).standing();
    assert_eq!((slots.limit, slots.window), (3, None));
    assert!(slots.returns);
}

fn gate<R: plimsoll::Rule>(time: &ManualClock, rule: R) -> Gate<R> {
    Gate::builder(rule).clock(time.clock()).build()
}

#[test]
fn a_key_that_nobody_knows_stands_as_a_new_one_and_is_not_kept() {
    let time = ManualClock::new();
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(2))
        .clock(time.clock())
        .build();
    assert_eq!(keyed.standing("anna"), Standing::new(2, 2).window(SECOND));
    assert!(keyed.is_empty());
    keyed.try_acquire("anna", 1).expect("there are 2").forget();
    assert_eq!(keyed.standing("anna").remaining.unwrap(), 1);
    assert_eq!(keyed.standing("anna").more_after, Some(SECOND / 2));
    let _gate = keyed.gate("anna").expect("there is room");
    assert_eq!(keyed.standing("anna").remaining.unwrap(), 1);
    assert_eq!(keyed.promise().window, Some(SECOND));
}

#[test]
fn several_tell_of_the_one_that_has_the_least() {
    let many = gate(&ManualClock::new(), TokenBucket::per_second(100));
    let few = gate(&ManualClock::new(), TokenBucket::per_second(5));
    let all = All::new([
        std::sync::Arc::new(many) as std::sync::Arc<dyn Limiter>,
        std::sync::Arc::new(few),
    ]);
    assert_eq!(all.standing().remaining, Some(5));
}
