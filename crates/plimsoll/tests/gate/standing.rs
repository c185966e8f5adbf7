//! What users are told of a limit: how much is left, and what is promised.

use std::time::Duration;

use plimsoll::{
    All, Concurrency, FixedWindow, Gate, Keyed, Limiter, ManualClock, Moment, Quota, Rule,
    SlidingCounter, SlidingLog, SlidingWindow, Standing, TokenBucket,
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

/// The window of a bucket is how long an empty one takes to be full.
#[test]
fn the_window_of_a_bucket_is_computed_and_measured() {
    for (units, seconds) in [(1, 1), (3, 7), (1000, 1), (7, 86_400), (1 << 40, 3)] {
        let quota = Quota::new(units, Duration::from_secs(seconds));
        for rule in [TokenBucket::greedy(quota), TokenBucket::interval(quota)] {
            for burst in [1, 2, 5, units, 1 << 20] {
                let rule = rule.clone().burst(burst);
                for rule in [
                    rule.clone().initial(0),
                    rule.clone().initial(burst / 2),
                    rule,
                ] {
                    for now in [0, 1, 999_999_999, 12_345_678_901_234] {
                        let now = Moment::from_nanos(now);
                        let mut state = rule.fresh(now);
                        let all = rule.available(&state, now);
                        if all > 0 {
                            rule.take(&mut state, now, all).expect("it is there");
                        }
                        let full = rule.full_at(&state, now).map(|full| full.since(now));
                        assert_eq!(rule.window(now), full, "{rule:?}");
                    }
                }
            }
        }
    }
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
