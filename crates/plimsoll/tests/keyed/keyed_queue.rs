//! The queue and the number of keys of a keyed limit change while it is used. It took another limit to change either, which
//! began with every key refilled.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{Keyed, ManualClock, Queue, Quota, Reason, TokenBucket};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn keyed(time: &ManualClock) -> Keyed<String, TokenBucket> {
    let builder = Keyed::builder(TokenBucket::greedy(Quota::per_hour(2)));
    builder.clock(time.clock()).max_keys(2).build()
}

#[test]
fn a_queue_comes_and_goes_and_who_waits_may_stay() {
    let time = ManualClock::new();
    let keyed = keyed(&time);
    assert!(keyed.try_acquire("a", 2).is_ok());
    let mut none = pin!(keyed.acquire("a", 1));
    assert!(matches!(poll(none.as_mut()), Poll::Ready(Err(_))));

    keyed.set_queue(Some(Queue::fifo(1)));
    let mut first = pin!(keyed.acquire("a", 1));
    assert!(poll(first.as_mut()).is_pending());
    let mut second = pin!(keyed.acquire("a", 1));
    assert!(
        matches!(poll(second.as_mut()), Poll::Ready(Err(denied)) if denied.reason() == Reason::QueueFull)
    );

    // The gate of the key has been made by now, and learns of it too.
    keyed.set_queue(Some(Queue::fifo(2)));
    let mut second = pin!(keyed.acquire("a", 1));
    assert!(poll(second.as_mut()).is_pending());
    keyed.set_queue(None);
    let mut third = pin!(keyed.acquire("a", 1));
    assert!(matches!(poll(third.as_mut()), Poll::Ready(Err(_))));
    time.advance(Duration::from_secs(3600));
    assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn more_or_fewer_keys_refill_nobody() {
    let time = ManualClock::new();
    let keyed = keyed(&time);
    assert!(keyed.try_acquire("a", 2).is_ok() && keyed.try_acquire("b", 2).is_ok());
    let full = keyed.try_acquire("c", 1).map(drop).expect_err("full");
    assert_eq!(full.reason(), Reason::KeysFull);
    keyed.set_max_keys(3).expect("some");
    assert!(keyed.try_acquire("c", 2).is_ok());
    keyed.set_max_keys(1).expect("some");
    for key in ["a", "b", "c"] {
        let used = keyed.try_acquire(key, 1).map(drop).expect_err("used up");
        assert_eq!(used.reason(), Reason::Exhausted, "{key} is still known");
    }
    let full = keyed.try_acquire("d", 1).map(drop).expect_err("full");
    assert_eq!(full.reason(), Reason::KeysFull);
    assert!(keyed.set_max_keys(0).is_err());
}
