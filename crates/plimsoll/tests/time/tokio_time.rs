//! On tokio's clock: paused time is followed to the instant, and nothing runs while nobody waits.

#![cfg(feature = "tokio")]

use std::time::Duration;

use plimsoll::{
    Clock, Concurrency, Demand, FixedWindow, Gate, Queue, Quota, Reason, Rule, SlidingWindow,
    TokenBucket,
};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};

const FIVE: Quota = Quota::per_second(5);

fn gate<R: Rule>(rule: R) -> Gate<R> {
    Gate::builder(rule)
        .queue(Queue::fifo(25))
        .clock(Clock::tokio())
        .build()
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Thirty come at once; tells after how many milliseconds each was served, by tokio's reckoning.
async fn thirty_at_once<R: Rule>(rule: R) -> Vec<u128> {
    let gate = gate(rule);
    let start = Instant::now();
    let crowd: Vec<_> = (0..30)
        .map(|_| {
            let gate = gate.clone();
            tokio::spawn(async move {
                let granted = gate.acquire(1).await.map(|permit| permit.granted_at());
                (granted.expect("there is room for all"), start.elapsed())
            })
        })
        .collect();
    let mut served = Vec::new();
    for task in crowd {
        let (granted_at, elapsed) = task.await.expect("it does not panic");
        assert_eq!(Duration::from_nanos(granted_at.as_nanos()), elapsed);
        served.push(elapsed.as_millis());
    }
    served
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_thirty_becomes_five_a_second_for_six_seconds() {
    let by_second: Vec<u128> = (0..30).map(|turn| turn / 5 * 1000).collect();
    assert_eq!(thirty_at_once(TokenBucket::interval(FIVE)).await, by_second);
    assert_eq!(thirty_at_once(FixedWindow::new(FIVE)).await, by_second);
    assert_eq!(thirty_at_once(SlidingWindow::new(FIVE, 5)).await, by_second);
    let evenly: Vec<u128> = (0..30_u128)
        .map(|turn| turn.saturating_sub(4) * 200)
        .collect();
    assert_eq!(thirty_at_once(TokenBucket::greedy(FIVE)).await, evenly);
}

#[tokio::test(start_paused = true)]
async fn one_more_than_may_wait_is_refused() {
    let gate = gate(TokenBucket::greedy(FIVE));
    gate.try_acquire(5).unwrap().forget();
    let tasks: Vec<_> = (0..26)
        .map(|_| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.acquire(1).await.map(drop) })
        })
        .collect();
    let mut refused = 0;
    for task in tasks {
        if let Err(denied) = task.await.unwrap() {
            assert_eq!(denied.reason(), Reason::QueueFull);
            assert_eq!(denied.retry_after(), Some(millis(5200)));
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
}

#[tokio::test(start_paused = true)]
async fn time_that_is_advanced_by_hand_serves_who_is_due() {
    let gate = gate(TokenBucket::per_second(1));
    gate.try_acquire(1).unwrap().forget();
    let waits = tokio::spawn({
        let gate = gate.clone();
        async move { gate.acquire(1).await.map(drop) }
    });
    yield_now().await;
    advance(millis(999)).await;
    assert!(!waits.is_finished());
    advance(millis(1)).await;
    waits.await.unwrap().unwrap();
    assert!(gate.try_acquire(1).is_err());
    advance(millis(1000)).await;
    assert!(gate.try_acquire(1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_and_a_reservation_follow_paused_time() {
    let slots = gate(Concurrency::new(1));
    let _held = slots.try_acquire(1).unwrap();
    let start = Instant::now();
    let denied = slots
        .acquire(Demand::ONE.within(millis(30)))
        .await
        .unwrap_err();
    assert_eq!(denied.reason(), Reason::TimedOut);
    // Tokio's timers tick by the millisecond.
    assert_eq!(start.elapsed(), millis(31));

    let rate = gate(TokenBucket::per_second(1));
    rate.try_acquire(1).unwrap().forget();
    let start = Instant::now();
    let reserved = rate.reserve(1).unwrap();
    assert_eq!(reserved.wait(), Some(millis(1000)));
    drop(reserved.await.unwrap());
    assert_eq!(start.elapsed(), millis(1000));
}

/// How many tasks there are once everything that can run has run.
async fn tasks() -> usize {
    for _ in 0..10 {
        yield_now().await;
    }
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_while_nobody_waits() {
    let gate = gate(TokenBucket::per_second(1));
    assert_eq!(tasks().await, 0);
    gate.acquire(1).await.unwrap().forget();
    assert!(gate.try_acquire(1).is_err());
    assert_eq!(tasks().await, 0);
    for _ in 0..3 {
        let waits = gate.acquire(1);
        let one_while_waiting = async {
            assert_eq!(tasks().await, 1);
        };
        let (permit, ()) = tokio::join!(waits, one_while_waiting);
        permit.unwrap().forget();
        assert_eq!(tasks().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn limiters_on_one_clock_share_one_task() {
    let clock = Clock::tokio();
    let gates = [1, 2, 3].map(|tokens| {
        Gate::builder(TokenBucket::per_second(tokens).initial(0))
            .queue(Queue::fifo(1))
            .clock(clock.clone())
            .build()
    });
    let [a, b, c] = gates.each_ref().map(|gate| gate.acquire(1));
    let one = async { assert_eq!(tasks().await, 1) };
    let (a, b, c, ()) = tokio::join!(a, b, c, one);
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(tasks().await, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_when_the_last_waiter_has_left() {
    let gate = gate(TokenBucket::greedy(Quota::per_hour(1)));
    gate.try_acquire(1).unwrap().forget();
    tokio::select! {
        biased;
        _ = gate.acquire(1) => panic!("that takes an hour"),
        () = sleep(millis(1)) => {}
    }
    assert_eq!(gate.snapshot().waiters(), 0);
    assert_eq!(tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_time_serves_too() {
    let every = millis(2);
    let gate = gate(TokenBucket::greedy(Quota::new(1, every)));
    let start = Instant::now();
    for turn in 0..4 {
        gate.acquire(1).await.unwrap().forget();
        assert!(start.elapsed() >= every * turn);
    }
}
