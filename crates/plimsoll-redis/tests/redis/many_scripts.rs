//! One decision about many subjects: how many scripts it is, and what has no script at all.

use std::time::Duration;

use crate::server::Server;
use plimsoll::{Concurrency, Denied, FixedWindow, Quota, Reason, SlidingLog, TokenBucket};
use plimsoll_redis::{RedisLimiter, Store, StoreAnswer, StoreAsk, StoreErrorKind};

/// Four limits of four kinds, each for a key of its own.
fn four(store: &Store) -> [RedisLimiter; 4] {
    [
        store.limiter("user", TokenBucket::per_second(10)),
        store.limiter("tenant", FixedWindow::new(Quota::per_hour(100))),
        store.limiter("daily", SlidingLog::new(Quota::per_day(50))),
        store.limiter("jobs", Concurrency::new(2)),
    ]
    .map(|limiter| limiter.expect("a limit"))
}

fn asks<'a>(four: &'a [RedisLimiter; 4], costs: [u64; 4]) -> Vec<StoreAsk<'a>> {
    let keys = ["user 7", "tenant 42", "user 7", "everybody"];
    let each = four.iter().zip(keys).zip(costs);
    each.map(|((limiter, key), cost)| StoreAsk::new(limiter, key, cost))
        .collect()
}

#[tokio::test]
async fn four_limits_are_one_round_trip_whatever_is_asked() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let four = four(&store);
    // The first call also makes the script known.
    store.peek_all(&asks(&four, [1; 4])).await.expect("answers");
    assert_eq!(server.cli(&["dbsize"]), "0");

    let before = server.scripts_run();
    let decision = store.decide_all(&asks(&four, [1, 2, 3, 1])).await;
    let decision = decision.expect("a decision");
    assert_eq!(server.scripts_run(), before + 1);
    let left: Vec<_> = decision
        .answers()
        .iter()
        .map(|it| it.standing.remaining)
        .collect();
    assert_eq!(left, [Some(9), Some(98), Some(47), Some(1)]);
    let fences: Vec<_> = decision
        .answers()
        .iter()
        .map(|it| it.fence.is_some())
        .collect();
    assert_eq!(fences, [false, false, false, true]);

    let peeked = store
        .peek_all(&asks(&four, [1, 99, 48, 2]))
        .await
        .expect("answers");
    assert_eq!(server.scripts_run(), before + 2);
    let grants: Vec<_> = peeked.iter().map(StoreAnswer::grants).collect();
    assert_eq!(grants, [true, false, false, false]);
    // Nobody knows when a job is returned, so that is the longest.
    assert_eq!(peeked.binding(), Some(3));
    assert_eq!(peeked.denied().and_then(Denied::limiter), Some("jobs"));

    let refused = store
        .decide_all(&asks(&four, [1, 99, 48, 1]))
        .await
        .expect("a decision");
    assert_eq!(server.scripts_run(), before + 3);
    assert_eq!(refused.answers().binding(), Some(2));
    let longest = refused.answers()[2]
        .denied
        .as_ref()
        .and_then(Denied::retry_after);
    let denied = refused.into_result().expect_err("refused");
    assert_eq!(
        (denied.limiter(), denied.retry_after()),
        (Some("daily"), longest)
    );
    assert!(longest > Some(Duration::from_secs(80_000)));

    // Jobs cannot be charged, so this is another script, which the first call makes known.
    let charged = store.charge_all(&asks(&four, [1, 1, 1, 0])).await;
    charged.expect("charged");
    let before = server.scripts_run();
    let charged = store.charge_all(&asks(&four, [3, 7, 6, 1])).await;
    charged.expect("charged");
    assert_eq!(server.scripts_run(), before + 1);
    let permits = decision.into_result().expect("permits");
    permits.undo().await.expect("undone");
    assert_eq!(server.scripts_run(), before + 2);
    let peeked = store.peek_all(&asks(&four, [0; 4])).await.expect("answers");
    let left: Vec<_> = peeked.iter().map(|it| it.standing.remaining).collect();
    // A bucket fills while this runs.
    assert_eq!(left[1..], [Some(92), Some(43), Some(2)]);
}

#[tokio::test]
async fn what_never_fits_is_refused_without_a_round_trip() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let four = four(&store);
    let mut asks = asks(&four, [5, 1, 1, 1]);
    asks.push(StoreAsk::new(&four[0], "user 7", 6));
    let decision = store.decide_all(&asks).await.expect("a decision");
    assert_eq!(server.scripts_run(), 0);
    let answers = decision.answers();
    assert_eq!(answers.binding(), Some(0));
    let reason = |answer: &StoreAnswer| answer.denied.as_ref().map(Denied::reason);
    assert_eq!(reason(&answers[0]), Some(Reason::TooLarge));
    assert_eq!(reason(&answers[4]), Some(Reason::TooLarge));
    assert_eq!(reason(&answers[1]), None);
    assert_eq!(
        (answers[1].standing.limit, answers[1].standing.remaining),
        (100, None)
    );
    // A shadow that never fits refuses nobody.
    asks[0] = asks[0].shadow();
    asks[4] = asks[4].shadow();
    let decision = store.decide_all(&asks).await.expect("a decision");
    assert!(decision.is_admitted());
    assert_eq!(reason(&decision.answers()[0]), Some(Reason::TooLarge));
    assert_eq!(decision.answers()[0].standing.remaining, Some(10));
}

/// A script holds up everybody, so it decides about a bounded number of subjects.
#[tokio::test]
async fn a_decision_about_hundreds_of_subjects_is_some_scripts_and_still_all_or_none() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let daily = store.limiter("daily", FixedWindow::new(Quota::per_day(2)));
    let daily = daily.expect("a limit");
    let keys: Vec<_> = (0..300).map(|key| key.to_string()).collect();
    let mut asks: Vec<_> = keys
        .iter()
        .map(|key| StoreAsk::new(&daily, key, 1))
        .collect();
    let decision = store.decide_all(&asks).await.expect("a decision");
    assert!(decision.is_admitted());
    // The first call also makes the script known.
    assert_eq!(server.scripts_run(), 4);
    asks[299] = StoreAsk::new(&daily, &keys[299], 2);
    let refused = store.decide_all(&asks).await.expect("a decision");
    assert!(!refused.is_admitted() && refused.is_compensated());
    assert_eq!(refused.answers().binding(), Some(299));
    let left = refused.answers().iter().map(|it| it.standing.remaining);
    assert_eq!(left.collect::<Vec<_>>(), [Some(1); 300]);
}

#[tokio::test]
async fn a_limiter_of_another_store_cannot_be_asked() {
    let server = Server::start();
    let (here, there) = (server.store().open(), server.store().open());
    let (here, there) = (here.expect("a store"), there.expect("a store"));
    let four = four(&there);
    let answer = here.decide_all(&asks(&four, [1; 4])).await;
    assert_eq!(
        answer.expect_err("another store").kind(),
        StoreErrorKind::Unsupported
    );
    let nothing = here.decide_all(&[]).await.expect("a decision");
    assert!(nothing.is_admitted() && nothing.answers().is_empty());
}

/// A caller that gives up has not been charged when the answer is here.
#[tokio::test]
async fn a_decision_that_nobody_waits_for_is_undone() {
    let server = Server::start();
    let store = server.store().open().expect("a store");
    let four = four(&store);
    {
        let asks = asks(&four, [1, 7, 5, 1]);
        let mut decision = Box::pin(store.decide_all(&asks));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(decision.as_mut().poll(cx)));
        assert!(polled.await.is_pending());
    }
    // Asked, and undone.
    while server.scripts_run() < 2 || server.cli(&["dbsize"]) != "0" {
        tokio::task::yield_now().await;
    }
    let peeked = store.peek_all(&asks(&four, [0; 4])).await.expect("answers");
    let left: Vec<_> = peeked.iter().map(|it| it.standing.remaining).collect();
    assert_eq!(left, [Some(10), Some(100), Some(50), Some(2)]);
}
