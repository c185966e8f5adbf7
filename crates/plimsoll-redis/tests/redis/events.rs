//! What a limiter in a store tells those who listen.

use std::sync::mpsc;

use crate::server::Server;
use plimsoll::{Concurrency, EventKind, FixedWindow, Quota};
use plimsoll_redis::{Borrow, Decision, StoreAsk};

#[tokio::test]
async fn decisions_of_the_store_are_told_with_their_keys() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let limiter = store.limiter("api", FixedWindow::new(Quota::per_day(2)));
    let limiter = limiter.expect("a limiter");
    let _ = limiter.decide("red", 1).await.expect("a decision");
    let mut events = limiter.clone().subscribe(100);
    let _ = limiter.decide("red", 1).await.expect("a decision");
    let _ = limiter.decide("red", 1).await.expect("a decision");
    let _ = limiter.decide("blue", 1).await.expect("a decision");
    let told: Vec<_> = events
        .by_ref()
        .map(|it| {
            let key = String::from_utf8(it.key).expect("text");
            (key, it.event.kind.as_str(), it.event.in_use)
        })
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|(key, word, used)| (&**key, *word, *used))
        .collect();
    assert_eq!(
        told,
        [
            ("red", "processing", 2),
            ("red", "rejected", 2),
            ("blue", "processing", 1)
        ]
    );
    // A subscriber that is gone costs nothing, and the next one hears again.
    drop(events);
    let (tell, heard) = mpsc::channel();
    let listener = limiter
        .subscribe_with(move |it| tell.send(it.event.limit).expect("heard"))
        .expect("a thread");
    let _ = limiter.decide("green", 1).await.expect("a decision");
    assert_eq!(heard.recv(), Ok(2));
    listener.finish();
}

#[tokio::test]
async fn a_lease_is_told_of_when_it_is_returned_and_not_when_it_is_forgotten() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let jobs = store
        .limiter("jobs", Concurrency::new(3))
        .expect("a limiter");
    let mut events = jobs.subscribe(100);
    for round in 0..3 {
        let decision = jobs.decide("red", 1).await.expect("a decision");
        let Decision::Granted(permit) = decision else {
            panic!("there is room");
        };
        match round {
            0 => assert!(permit.release().await.expect("an answer")),
            1 => drop(permit),
            _ => permit.forget(),
        }
    }
    let kinds: Vec<EventKind> = events.by_ref().map(|it| it.event.kind).collect();
    let words: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(
        words,
        [
            "processing",
            "processed",
            "processing",
            "processed",
            "processing"
        ]
    );
}

/// The words of what was told, with the keys.
fn words(events: &mut plimsoll::Events<plimsoll::KeyedEvent<Vec<u8>>>) -> Vec<String> {
    let word = |it: plimsoll::KeyedEvent<Vec<u8>>| {
        let key = String::from_utf8(it.key).expect("text");
        format!("{key} {}", it.event.kind.as_str())
    };
    events.by_ref().map(word).collect()
}

#[tokio::test]
async fn decisions_about_several_limits_are_told_by_each_of_them() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let day = store.limiter("day", FixedWindow::new(Quota::per_day(2)));
    let (day, jobs) = (
        day.expect("a limiter"),
        store
            .limiter("jobs", Concurrency::new(1))
            .expect("a limiter"),
    );
    let (mut of_day, mut of_jobs) = (day.subscribe(100), jobs.subscribe(100));
    let asks = [
        StoreAsk::new(&day, "red", 1),
        StoreAsk::new(&jobs, "blue", 1),
    ];
    let permits = store.decide_all(&asks).await.expect("an answer");
    let permits = permits.into_result().expect("granted");
    assert_eq!(words(&mut of_day), ["red processing"]);
    assert_eq!(words(&mut of_jobs), ["blue processing"]);
    let refused = store.decide_all(&asks).await.expect("an answer");
    assert!(refused.into_result().is_err());
    assert!(words(&mut of_day).is_empty(), "nothing was taken from it");
    assert_eq!(words(&mut of_jobs), ["blue rejected"]);
    drop(permits);
    assert_eq!(words(&mut of_jobs), ["blue processed"]);
    let all = store
        .all([day.clone(), jobs.clone()])
        .expect("of one store");
    let mut granted = None;
    // The lease is returned in the background.
    for _ in 0..1000 {
        if let Decision::Granted(permit) = all.decide("green", 1).await.expect("an answer") {
            granted = Some(permit);
            break;
        }
    }
    granted.expect("it was returned").forget();
    assert_eq!(
        words(&mut of_jobs).last().map(String::as_str),
        Some("green processing")
    );
}

#[tokio::test]
async fn what_is_decided_by_what_was_borrowed_is_told_too() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let day = store.limiter("day", FixedWindow::new(Quota::per_day(10)));
    let day = day.expect("a limiter");
    let mut events = day.subscribe(100);
    let fleet = day
        .fleet()
        .borrowing(Borrow::new().max(4))
        .build()
        .expect("a fleet");
    for _ in 0..10 {
        let granted = plimsoll::PerKey::acquire_owned(&fleet, "red", 1.into()).await;
        drop(granted.expect("granted"));
    }
    assert!(
        plimsoll::PerKey::acquire_owned(&fleet, "red", 1.into())
            .await
            .is_err()
    );
    let told = words(&mut events);
    let count = |word: &str| told.iter().filter(|it| *it == word).count();
    assert_eq!(
        (count("red processing"), count("red rejected")),
        (10, 1),
        "{told:?}"
    );
}
