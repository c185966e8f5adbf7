//! What a limiter in a store tells those who listen.

use std::sync::mpsc;

use crate::server::Server;
use plimsoll::{Concurrency, EventKind, FixedWindow, Quota};
use plimsoll_redis::Decision;

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
