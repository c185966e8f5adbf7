//! Several weights at once, for those who wait: deadlines, reservations, and nothing held meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{Clock, Concurrency, Gate, ManualClock, Queue, Reason, Rule, TokenBucket};
use plimsoll_kinds::{Basic, Demands, Provider, Weight};

const COUNT: Weight = Weight::REQUEST_COUNT;
const BYTES: Weight = Weight::NETWORK_BYTES;
const MEMORY: Weight = Weight::MEMORY_SIZE;

fn gate<R: Rule>(name: &str, rule: R, clock: &Clock) -> Gate<R> {
    Gate::builder(rule).name(name).clock(clock.clone()).build()
}

fn queued<R: Rule>(name: &str, rule: R, clock: &Clock) -> Gate<R> {
    let builder = Gate::builder(rule).name(name).clock(clock.clone());
    builder.queue(Queue::fifo(100)).build()
}

#[test]
fn one_who_waits_holds_nothing_of_the_others() {
    let time = ManualClock::new();
    let requests = queued("requests", Concurrency::new(1), &time.clock());
    let bytes = queued("bytes", TokenBucket::per_second(10), &time.clock());
    let provider = Provider::builder()
        .limit(COUNT, requests.clone())
        .limit(BYTES, bytes.clone())
        .build()
        .unwrap();
    drop(bytes.try_acquire(10).unwrap());
    let costs = [(COUNT, 1), (BYTES, 5)];
    let mut waiting = pin!(provider.acquire(&costs));
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(bytes.snapshot().waiters(), 1);
    let taken = requests.try_acquire(1).expect("it is not held meanwhile");
    time.advance(Duration::from_millis(500));
    assert!(poll(&mut waiting).is_pending(), "now the other refuses");
    assert_eq!(
        (bytes.snapshot().available(), requests.snapshot().waiters()),
        (5, 1)
    );
    drop(taken);
    let Poll::Ready(granted) = poll(&mut waiting) else {
        panic!("both have room")
    };
    let permits = granted.unwrap();
    assert_eq!(
        (requests.snapshot().in_use(), bytes.snapshot().available()),
        (1, 0)
    );
    drop(permits);
    assert_eq!(requests.snapshot().in_use(), 0);
    assert_eq!(bytes.snapshot().granted_total(), 2, "charged once");
}

#[test]
fn a_deadline_that_cannot_be_met_is_refused_at_once() {
    let time = ManualClock::new();
    let requests = queued("requests", Concurrency::new(1), &time.clock());
    let bytes = queued("bytes", TokenBucket::per_second(10), &time.clock());
    let provider = Provider::builder()
        .limit(COUNT, requests.clone())
        .limit(BYTES, bytes.clone())
        .build()
        .unwrap();
    drop(bytes.try_acquire(10).unwrap());
    let held = requests.try_acquire(1).unwrap();
    let costs = [(COUNT, 1), (BYTES, 5)];
    let late = Duration::from_millis(499);
    let until = time.clock().now().plus(late);
    for demands in [
        Demands::of(&costs).within(late),
        Demands::of(&costs).until(until),
    ] {
        // It would wait for the one who holds the request, if it did not know of the bytes.
        let denied = provider.acquire_blocking(demands).unwrap_err();
        assert_eq!(
            (denied.reason(), denied.limiter()),
            (Reason::TimedOut, Some("bytes"))
        );
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
        let denied = provider.reserve(demands).unwrap_err();
        assert_eq!(denied.limiter(), Some("bytes"));
    }
    assert_eq!(
        (requests.snapshot().waiters(), bytes.snapshot().waiters()),
        (0, 0)
    );
    drop(held);

    let in_time = Demands::of(&costs).within(Duration::from_millis(500));
    let mut waiting = pin!(provider.acquire(in_time));
    assert!(poll(&mut waiting).is_pending());
    time.advance(Duration::from_millis(500));
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));
    // What can never be is not waited for, either.
    let denied = provider
        .acquire_blocking(&[(COUNT, 1), (BYTES, 11)])
        .unwrap_err();
    assert_eq!(denied.reason(), Reason::TooLarge);
}

#[test]
fn the_time_for_all_weights_is_one() {
    let time = ManualClock::new();
    let gates = [COUNT, BYTES].map(|weight| {
        let slots = queued(weight.as_str(), Concurrency::new(1), &time.clock());
        (weight, slots)
    });
    let [(_, requests), (_, bytes)] = &gates;
    let provider = Provider::builder()
        .limit(COUNT, requests.clone())
        .limit(BYTES, bytes.clone())
        .build()
        .unwrap();
    let (first, second) = (
        requests.try_acquire(1).unwrap(),
        bytes.try_acquire(1).unwrap(),
    );
    let costs = [(COUNT, 1), (BYTES, 1)];
    let mut waiting = pin!(provider.acquire(Demands::of(&costs).within(Duration::from_secs(3))));
    assert!(poll(&mut waiting).is_pending());
    time.advance(Duration::from_secs(2));
    drop(first);
    assert!(poll(&mut waiting).is_pending());
    time.advance(Duration::from_secs(1) + Duration::from_nanos(1));
    let Poll::Ready(Err(denied)) = poll(&mut waiting) else {
        panic!("its time is over")
    };
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::TimedOut, Some("network_bytes"))
    );
    drop(second);
    assert_eq!(
        (requests.snapshot().in_use(), bytes.snapshot().in_use()),
        (0, 0)
    );
}

#[test]
fn a_reservation_is_ready_when_the_last_is_and_cancels_all() {
    let time = ManualClock::new();
    let requests = gate("requests", TokenBucket::per_second(10), &time.clock());
    let bytes = gate("bytes", TokenBucket::per_second(100), &time.clock());
    let memory = queued("memory", Concurrency::new(10), &time.clock());
    let provider = Provider::builder()
        .limit(COUNT, requests.clone())
        .limit(BYTES, bytes.clone())
        .limit(MEMORY, memory.clone())
        .build()
        .unwrap();
    drop(provider.try_acquire(&[(COUNT, 10), (BYTES, 100)]).unwrap());
    let reserved = provider
        .reserve(&[(COUNT, 1), (BYTES, 30), (MEMORY, 4)])
        .unwrap();
    assert_eq!(reserved.wait(), Some(Duration::from_millis(300)));
    assert_eq!(memory.snapshot().in_use(), 4);
    drop(reserved);
    assert_eq!(memory.snapshot().in_use(), 0);

    // Half of it is ready when it is given up.
    let mut reserved = provider
        .reserve(&[(COUNT, 1), (BYTES, 30), (MEMORY, 4)])
        .unwrap();
    assert_eq!(reserved.wait(), Some(Duration::from_millis(300)));
    time.advance(Duration::from_millis(100));
    assert!(poll(&mut reserved).is_pending());
    drop(reserved);
    assert_eq!(
        (
            requests.snapshot().available(),
            bytes.snapshot().available()
        ),
        (1, 10)
    );

    let reserved = provider.reserve(&[(COUNT, 1), (BYTES, 30)]).unwrap();
    assert!(!reserved.is_ready());
    time.advance(Duration::from_millis(200));
    assert_eq!(reserved.wait_blocking().unwrap().len(), 2);

    // Waiting for others to give back takes as long as it takes.
    let held = memory.try_acquire(8).unwrap();
    let mut unknown = provider.reserve(&[(MEMORY, 4)]).unwrap();
    assert_eq!((unknown.wait(), unknown.is_ready()), (None, false));
    assert!(poll(&mut unknown).is_pending());
    drop(held);
    let Poll::Ready(Ok(permits)) = poll(&mut unknown) else {
        panic!("it was given back")
    };
    assert_eq!(permits.iter().next().unwrap().cost(), 4);

    memory.close();
    let refused = provider.reserve(&[(COUNT, 1), (MEMORY, 1)]).unwrap_err();
    assert_eq!(refused.reason(), Reason::Closed);
}

#[test]
fn one_that_has_nothing_left_may_promise_something_for_later() {
    let time = ManualClock::new();
    let full = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&full);
    let switch = Basic::when("switch", move || seen.load(Ordering::Relaxed));
    let bytes = gate("bytes", TokenBucket::per_second(10), &time.clock());
    let provider = Provider::builder()
        .basic(switch)
        .limit(BYTES, bytes.clone())
        .build()
        .unwrap();
    drop(bytes.try_acquire(10).unwrap());
    assert!(provider.check_saturation().is_err());
    let reserved = provider.reserve(&[(BYTES, 5)]).unwrap();
    assert_eq!(reserved.wait(), Some(Duration::from_millis(500)));
    full.store(true, Ordering::Relaxed);
    assert_eq!(
        provider.reserve(&[(BYTES, 5)]).unwrap_err().limiter(),
        Some("switch")
    );
}
