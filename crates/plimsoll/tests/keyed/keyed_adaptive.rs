//! A limit for each key that finds itself.

use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Aimd, LatencyGradient, Vegas, Verdict};
use plimsoll::{EventKind, Keyed, ManualClock, Outcome, Permit, Queue, Reason, Rule, WhenFull};

use crate::poll::poll;

const MS: Duration = Duration::from_millis(1);

fn aimd(time: &ManualClock, max_keys: usize, when_full: WhenFull) -> Keyed<String, Adaptive<Aimd>> {
    let aimd = Aimd::builder().min(1).initial(10).max(100).build();
    let aimd = aimd.expect("these go together");
    Keyed::builder(Adaptive::new(aimd))
        .max_keys(max_keys)
        .when_full(when_full)
        .queue(Queue::fifo(3))
        .clock(time.clock())
        .build()
}

fn limit<R: Rule + Clone>(keyed: &Keyed<String, R>, key: &str) -> u64 {
    keyed.snapshot_of(key).map_or(0, |seen| seen.limit())
}

/// Rounds in which a key has as much at once as it may, and each takes so long.
fn work<R: Rule + Clone>(
    keyed: &Keyed<String, R>,
    time: &ManualClock,
    rounds: usize,
    took: impl Fn(&str, usize) -> Duration,
    keys: &[&str],
) {
    for _ in 0..rounds {
        for key in keys {
            let permits: Vec<Permit<'_>> =
                std::iter::from_fn(|| keyed.try_acquire(*key, 1).ok()).collect();
            time.advance(took(key, permits.len()));
            for permit in permits {
                permit.finish(Outcome::Success);
            }
        }
    }
}

#[test]
fn each_key_learns_for_itself() {
    let time = ManualClock::new();
    let keyed = aimd(&time, 100, WhenFull::Refuse);
    for _ in 0..5 {
        keyed
            .try_acquire("bad", 1)
            .unwrap()
            .finish(Outcome::Overload);
    }
    work(&keyed, &time, 5, |_, _| 10 * MS, &["good"]);
    assert!(limit(&keyed, "bad") < 10, "{}", limit(&keyed, "bad"));
    assert!(limit(&keyed, "good") > 10, "{}", limit(&keyed, "good"));
    drop(keyed.try_acquire("new", 1).unwrap());
    assert_eq!(
        limit(&keyed, "new"),
        10,
        "what others learned is not its own"
    );
    assert_eq!(keyed.standing("unknown").limit, 10);
}

#[test]
fn a_slow_key_lowers_no_limit_but_its_own() {
    let time = ManualClock::new();
    // Each unit beyond 10 makes the slow key slower; the fast one has no such bound.
    let took = |key: &str, at_once: usize| match key {
        "slow" => 10 * MS * u32::try_from(at_once.saturating_sub(10).max(1)).unwrap_or(1) * 5,
        _ => 10 * MS,
    };
    let vegas = Vegas::builder().initial(20).build().unwrap();
    let keyed: Keyed<String, _> = Keyed::builder(Adaptive::new(vegas))
        .clock(time.clock())
        .build();
    work(&keyed, &time, 200, took, &["slow", "fast"]);
    let alone: Keyed<String, _> =
        Keyed::builder(Adaptive::new(Vegas::builder().initial(20).build().unwrap()))
            .clock(time.clock())
            .build();
    work(&alone, &time, 200, took, &["fast"]);
    assert!(limit(&keyed, "slow") < limit(&keyed, "fast"));
    assert_eq!(
        limit(&keyed, "fast"),
        limit(&alone, "fast"),
        "as if it were alone"
    );
}

#[test]
fn what_a_key_has_learned_is_kept_for_ten_minutes() {
    let time = ManualClock::new();
    let keyed = aimd(&time, 100, WhenFull::Refuse);
    keyed
        .try_acquire("red", 1)
        .unwrap()
        .finish(Outcome::Overload);
    // Asked for, but nothing was learned.
    drop(keyed.try_acquire("idle", 1).unwrap());
    let sweep = || {
        for _ in 0..200 {
            time.advance(5 * MS);
            drop(keyed.try_acquire("other", 1).unwrap());
        }
    };
    sweep();
    assert_eq!((limit(&keyed, "red"), limit(&keyed, "idle")), (9, 0));
    time.advance(Duration::from_secs(590));
    sweep();
    assert_eq!(limit(&keyed, "red"), 9);
    time.advance(Duration::from_secs(20));
    sweep();
    assert_eq!(limit(&keyed, "red"), 0, "forgotten");
}

#[test]
fn there_are_never_more_keys_than_may_be() {
    let time = ManualClock::new();
    let keyed = aimd(&time, 2, WhenFull::Refuse);
    for key in ["a", "b"] {
        keyed.try_acquire(key, 1).unwrap().finish(Outcome::Overload);
    }
    let denied = keyed.try_acquire("c", 1).unwrap_err();
    assert_eq!(denied.reason(), Reason::KeysFull);

    let keyed = aimd(&time, 2, WhenFull::EvictLeastRecent);
    for key in ["a", "b", "a", "c"] {
        time.advance(MS);
        keyed.try_acquire(key, 1).unwrap().finish(Outcome::Overload);
    }
    assert_eq!(keyed.len(), 2);
    assert_eq!((limit(&keyed, "a"), limit(&keyed, "b")), (8, 0));
}

#[test]
fn each_key_has_a_queue_whose_bound_follows_its_limit() {
    let time = ManualClock::new();
    let keyed: Keyed<String, _> = Keyed::builder(Adaptive::new(LatencyGradient::default()))
        .queue(Queue::fifo(7))
        .clock(time.clock())
        .build();
    let held: Vec<_> = (0..5)
        .map(|_| keyed.try_acquire("red", 1).unwrap())
        .collect();
    let seen = keyed.snapshot_of("red").unwrap();
    assert_eq!(
        (seen.limit(), seen.queue_bound()),
        (5, 20),
        "that of the algorithm"
    );
    let mut waiting = Box::pin(keyed.acquire("red", 1));
    assert!(poll(&mut waiting).is_pending());
    drop(held);
    assert!(poll(&mut waiting).is_ready());
}

#[test]
fn ticks_begin_with_the_key() {
    let time = ManualClock::new();
    time.advance(Duration::from_secs(3600));
    let keyed: Keyed<String, _> = Keyed::builder(Adaptive::new(Verdict::new()))
        .clock(time.clock())
        .build();
    work(&keyed, &time, 50, |_, _| 10 * MS, &["red"]);
    let gate = keyed.gate("red").unwrap();
    assert!(gate.insight().limit > 20, "{:?}", gate.insight());
}

#[test]
fn a_limit_that_moved_is_an_event_of_its_key() {
    let time = ManualClock::new();
    let keyed = aimd(&time, 10, WhenFull::Refuse);
    let mut events = keyed.subscribe(100);
    keyed
        .try_acquire("red", 1)
        .unwrap()
        .finish(Outcome::Overload);
    let moved = events.find(|it| it.event.kind == EventKind::LimitChanged);
    let moved = moved.expect("told");
    assert_eq!((moved.key.as_str(), moved.event.limit), ("red", 9));
}
