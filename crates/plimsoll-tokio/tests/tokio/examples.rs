//! The examples do what they say.

#[path = "../../examples/limited_channel.rs"]
mod limited_channel;
#[expect(dead_code, reason = "its `main` goes by the system's clock")]
#[path = "../../examples/throttled_upload.rs"]
mod throttled_upload;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::settle::settle;
use limited_channel::Document;
use plimsoll::ManualClock;

#[test]
fn the_channel_runs() {
    limited_channel::main().unwrap();
}

#[tokio::test]
async fn never_more_is_in_memory_than_the_limit() {
    let (memory, sender, receiver) = limited_channel::documents(1000);
    let most = Arc::new(AtomicU64::new(0));
    let (seen, worst) = (memory.clone(), Arc::clone(&most));
    let works = tokio::spawn(limited_channel::work(receiver, move |_| {
        worst.fetch_max(seen.snapshot().in_use(), Ordering::Relaxed);
    }));
    for number in 0..50 {
        let document = Document {
            name: number.to_string(),
            text: vec![0; 100 + number * 17],
        };
        sender.send(document).await.unwrap();
    }
    drop(sender);
    assert_eq!(
        works.await.unwrap(),
        (0..50).map(|number| 100 + number * 17).sum::<usize>()
    );
    assert!((900..=1000).contains(&most.load(Ordering::Relaxed)));
    assert_eq!(memory.snapshot().in_use(), 0);
}

#[tokio::test]
async fn uploads_take_as_long_as_their_budgets_say() {
    let time = ManualClock::new();
    let all = throttled_upload::budget(100_000, &time.clock());
    let mut uploads = Vec::new();
    for piece in [1, 100, 10_000] {
        let own = throttled_upload::budget(40_000, &time.clock());
        let all = all.clone();
        uploads.push(tokio::spawn(async move {
            let sink = tokio::io::sink();
            throttled_upload::upload(sink, 20_000, piece, &own, &all).await
        }));
    }
    settle().await;
    while !uploads.iter().all(tokio::task::JoinHandle::is_finished) {
        time.advance(Duration::from_millis(1));
        settle().await;
    }
    // A hundredth of a second's worth was there at once: 1000 bytes of 60 000.
    assert_eq!(time.now().as_nanos() / 1_000_000, 590);
}

#[tokio::test]
async fn everything_that_is_uploaded_arrives() {
    let time = ManualClock::new();
    let all = tokio::spawn(throttled_upload::run(time.clock()));
    // Sockets take their time, so this clock may run ahead of them; it never waits for anybody.
    while !all.is_finished() {
        time.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(all.await.unwrap().unwrap(), [100_000; 3]);
    assert!(
        time.now().as_nanos() >= 200_000_000,
        "200 kB beyond the burst"
    );
}
