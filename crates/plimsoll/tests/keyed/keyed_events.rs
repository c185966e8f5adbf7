//! What a limit for each key tells those who listen.

use std::sync::mpsc;
use std::time::Duration;

use plimsoll::{
    Concurrency, EventKind, Events, Keyed, KeyedEvent, ManualClock, PerKey, Queue, Reason,
    TokenBucket, WhenFull,
};

use crate::poll::poll;

/// The key, the word and what is in use, without changes of counts.
fn told(events: &mut Events<KeyedEvent<String>>) -> Vec<(String, &'static str, u64)> {
    let counts = [EventKind::InUseChanged, EventKind::QueuedChanged];
    events
        .filter(|it| !counts.contains(&it.event.kind))
        .map(|it| (it.key, it.event.kind.as_str(), it.event.in_use))
        .collect()
}

fn entry(key: &str, word: &'static str, in_use: u64) -> (String, &'static str, u64) {
    (key.to_owned(), word, in_use)
}

fn buckets(time: &ManualClock) -> Keyed<String, TokenBucket> {
    Keyed::builder(TokenBucket::per_second(2))
        .queue(Queue::fifo(2))
        .clock(time.clock())
        .build()
}

#[test]
fn each_event_has_its_key() {
    let time = ManualClock::new();
    let keyed = buckets(&time);
    // Known before anybody listens: as a word, and with a gate.
    assert!(keyed.try_acquire("word", 1).is_ok());
    let mut waits = Box::pin(keyed.acquire("gate", 2));
    assert!(poll(&mut waits).is_ready());
    let mut waits = Box::pin(keyed.acquire("gate", 1));
    assert!(poll(&mut waits).is_pending());

    let mut events = keyed.subscribe(100);
    assert_eq!(told(&mut events), [], "there is no first event of a key");
    assert!(keyed.try_acquire("word", 1).is_ok());
    assert!(keyed.try_acquire("word", 1).is_err());
    assert!(keyed.try_acquire("new", 1).is_ok());
    assert_eq!(
        told(&mut events),
        [
            entry("word", "processing", 2),
            entry("word", "rejected", 2),
            entry("new", "processing", 1),
        ]
    );
    time.advance(Duration::from_secs(1));
    assert!(poll(&mut waits).is_ready());
    assert_eq!(
        told(&mut events),
        [entry("gate", "dequeued", 2), entry("gate", "processing", 2)]
    );
}

#[test]
fn every_verb_is_told() {
    let keyed = buckets(&ManualClock::new());
    let mut events = keyed.subscribe(100);
    assert_eq!(keyed.take_up_to("a", 5).cost(), 2);
    assert_eq!(told(&mut events), [entry("a", "processing", 2)]);
    let permit = keyed.try_acquire("b", 1).unwrap();
    keyed.undo("b", permit);
    assert_eq!(told(&mut events).len(), 2);
    assert!(PerKey::attempt(&keyed, "c", 1.into()).is_ok());
    assert_eq!(told(&mut events), [entry("c", "processing", 1)]);
    keyed.close();
    assert!(keyed.try_acquire("new", 1).is_err());
    assert_eq!(told(&mut events), [entry("new", "rejected", 0)]);
}

#[test]
fn a_key_without_room_is_refused_with_its_name() {
    let keyed: Keyed<String, _> = Keyed::builder(TokenBucket::per_second(2))
        .max_keys(1)
        .clock(ManualClock::new().clock())
        .build();
    let mut events = keyed.subscribe(100);
    assert!(keyed.try_acquire("in", 1).is_ok());
    assert!(keyed.try_acquire("out", 1).is_err());
    let refused = events.find(|it| matches!(it.event.kind, EventKind::Rejected { .. }));
    let refused = refused.expect("told");
    assert_eq!(refused.key, "out");
    let EventKind::Rejected { reason, .. } = refused.event.kind else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, Reason::KeysFull);
    assert_eq!(keyed.len(), 1, "listening makes no room");
}

#[test]
fn permits_of_a_key_come_back_with_its_name() {
    for when_full in [WhenFull::Refuse, WhenFull::EvictLeastRecent] {
        let keyed: Keyed<String, _> = Keyed::builder(Concurrency::new(1))
            .when_full(when_full)
            .clock(ManualClock::new().clock())
            .build();
        let before = keyed.try_acquire("old", 1).unwrap();
        let mut events = keyed.subscribe(100);
        drop(before);
        drop(keyed.try_acquire("new", 1).unwrap());
        assert_eq!(
            told(&mut events),
            [
                entry("old", "processed", 0),
                entry("new", "processing", 1),
                entry("new", "processed", 0),
            ]
        );
    }
}

#[test]
fn several_listen_and_whoever_is_gone_costs_nothing() {
    let time = ManualClock::new();
    let keyed = buckets(&time);
    let (mut one, mut two) = (keyed.subscribe(100), keyed.subscribe(100));
    assert!(keyed.try_acquire("a", 1).is_ok());
    assert_eq!(told(&mut one), told(&mut two));
    drop(one);
    assert!(keyed.try_acquire("a", 1).is_ok());
    assert_eq!(told(&mut two).len(), 1);
    drop(two);
    // A key is a word again, of which a later subscriber hears all the same.
    time.advance(Duration::from_secs(60));
    assert!(keyed.try_acquire("b", 1).is_ok());
    let mut later = keyed.subscribe(100);
    time.advance(Duration::from_secs(60));
    assert!(keyed.try_acquire("b", 1).is_ok());
    assert_eq!(told(&mut later), [entry("b", "processing", 1)]);
}

#[test]
fn a_slow_subscriber_is_bounded_and_a_function_is_called() {
    let keyed = buckets(&ManualClock::new());
    let slow = keyed.subscribe(3);
    let (tell, heard) = mpsc::channel();
    let listener = keyed
        .subscribe_with(move |it| tell.send(it.key).unwrap())
        .unwrap();
    for key in 0..10 {
        assert!(keyed.try_acquire(&key.to_string(), 1).is_ok());
    }
    assert_eq!((slow.count(), heard.iter().take(20).count()), (3, 20));
    listener.finish();
}

#[test]
fn listening_changes_no_answer() {
    let time = ManualClock::new();
    let (heard, unheard) = (buckets(&time), buckets(&time));
    let mut events = None;
    let mut state = 7_u64;
    for round in 0..2_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let key = (state >> 33 & 7).to_string();
        match state >> 40 & 15 {
            0 => events = Some(heard.subscribe(100)),
            1 => events = None,
            2 => time.advance(Duration::from_millis(300)),
            _ => {
                let (a, b) = (heard.try_acquire(&key, 1), unheard.try_acquire(&key, 1));
                assert_eq!(a.is_ok(), b.is_ok(), "round {round}");
                if let (Err(a), Err(b)) = (a, b) {
                    assert_eq!(a, b);
                }
            }
        }
        assert_eq!(heard.snapshot().in_use(), unheard.snapshot().in_use());
        assert_eq!(
            heard.snapshot().granted_total(),
            unheard.snapshot().granted_total()
        );
    }
    drop(events);
}
