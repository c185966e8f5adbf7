//! Readers that an event wakes, functions that are called with each, and counts that changed.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{
    Concurrency, Event, EventKind, Events, Gate, ManualClock, Outcome, Queue, TokenBucket,
};

use crate::waiter::{Bell, Waiter};

fn gate(limit: u64, queue: u64) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(queue))
        .clock(ManualClock::new().clock())
        .build()
}

fn words(events: &mut Events) -> Vec<&'static str> {
    events.map(|event| event.kind.as_str()).collect()
}

fn poll(events: &mut Events, bell: &Arc<Bell>) -> Poll<Option<&'static str>> {
    let waker = Waker::from(Arc::clone(bell));
    let polled = events.poll_recv(&mut Context::from_waker(&waker));
    polled.map(|event| event.map(|event| event.kind.as_str()))
}

#[test]
fn changed_counts_have_kinds_of_their_own_and_come_after_what_changed_them() {
    let gate = gate(1, 5);
    let mut events = gate.subscribe(100);
    words(&mut events);
    let running = gate.try_acquire(1).unwrap();
    let waiting = Waiter::new(gate.acquire(1));
    let counts = |events: &mut Events| -> Vec<(&'static str, u64, u64)> {
        events
            .map(|event| (event.kind.as_str(), event.in_use, event.queued))
            .collect()
    };
    assert_eq!(
        counts(&mut events),
        [
            ("processing", 1, 0),
            ("in_use_changed", 1, 0),
            ("enqueued", 1, 1),
            ("queued_changed", 1, 1),
        ]
    );
    running.finish(Outcome::Success);
    assert_eq!(
        counts(&mut events),
        [
            ("processed", 0, 1),
            ("in_use_changed", 0, 1),
            ("dequeued", 1, 0),
            ("queued_changed", 1, 0),
            ("in_use_changed", 1, 0),
            ("processing", 1, 0),
        ]
    );
    drop(waiting);
    // What no other event tells is told as a count.
    let other = gate.try_acquire(1).unwrap();
    words(&mut events);
    assert!(gate.try_acquire(1).is_err());
    assert_eq!(words(&mut events), ["rejected"], "no count has changed");
    drop(other);
}

#[test]
fn a_count_that_changes_without_an_item_is_told_too() {
    let gate = Gate::builder(TokenBucket::per_second(5))
        .clock(ManualClock::new().clock())
        .build();
    let mut events = gate.subscribe(100);
    words(&mut events);
    gate.charge(3);
    let told: Vec<_> = events
        .by_ref()
        .map(|event| (event.kind.as_str(), event.in_use))
        .collect();
    assert_eq!(told, [("in_use_changed", 3)]);
}

#[test]
fn an_event_wakes_the_reader_once_and_only_while_it_waits() {
    let gate = gate(1, 5);
    let mut events = gate.subscribe(100);
    let bell = Arc::new(Bell::default());
    assert_eq!(poll(&mut events, &bell), Poll::Ready(Some("limit_changed")));
    assert_eq!(
        poll(&mut events, &bell),
        Poll::Ready(Some("queue_bound_changed"))
    );
    assert!(poll(&mut events, &bell).is_pending());
    assert_eq!(bell.rung(), 0);
    let permit = gate.try_acquire(1).unwrap();
    assert_eq!(bell.rung(), 1, "two events, one wake");
    drop(permit);
    assert_eq!(bell.rung(), 1, "it does not wait");
    assert_eq!(
        words(&mut events),
        [
            "processing",
            "in_use_changed",
            "processed",
            "in_use_changed"
        ]
    );
    // The last task that polled is woken.
    let other = Arc::new(Bell::default());
    assert!(poll(&mut events, &bell).is_pending());
    assert!(poll(&mut events, &other).is_pending());
    drop(gate.try_acquire(1).unwrap());
    assert_eq!((bell.rung(), other.rung()), (1, 1));
}

#[test]
fn a_reader_learns_that_the_limiter_is_gone_after_all_events() {
    let gate = gate(1, 0);
    let mut events = gate.subscribe(100);
    words(&mut events);
    let bell = Arc::new(Bell::default());
    assert!(poll(&mut events, &bell).is_pending());
    drop(gate.try_acquire(1).unwrap());
    assert_eq!(poll(&mut events, &bell), Poll::Ready(Some("processing")));
    drop(gate);
    let left: Vec<_> = std::iter::from_fn(|| events.recv_blocking()).collect();
    assert_eq!(left.len(), 3);
    assert_eq!(events.recv_blocking(), None);
}

#[test]
fn dropping_the_future_of_an_event_loses_none() {
    let gate = gate(1, 0);
    let mut events = gate.subscribe(100);
    words(&mut events);
    {
        let mut next = pin!(events.recv());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(std::future::Future::poll(next.as_mut(), &mut cx).is_pending());
        drop(gate.try_acquire(1).unwrap());
    }
    assert_eq!(words(&mut events).len(), 4);
}

#[test]
fn a_waker_that_panics_takes_no_permit_along() {
    struct Bad;
    impl std::task::Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any("not the limiter's fault");
        }
    }
    let gate = gate(1, 0);
    let mut events = gate.subscribe(100);
    words(&mut events);
    let waker = Waker::from(Arc::new(Bad));
    assert!(
        events
            .poll_recv(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let permit = gate.try_acquire(1).expect("granted all the same");
    drop(permit);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_reader_on_another_thread_sees_every_event() {
    let gate = gate(4, 0);
    let mut events = gate.subscribe(1_000_000);
    let reader = thread::spawn(move || {
        let mut granted = 0_u64;
        while let Some(event) = events.recv_blocking() {
            granted += u64::from(matches!(event.kind, EventKind::Processing { .. }));
        }
        (granted, events.missed())
    });
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    drop(gate.try_acquire(1).unwrap());
                }
            });
        }
    });
    drop(gate);
    assert_eq!(reader.join().unwrap(), (4_000, 0));
}

#[test]
fn a_function_is_called_with_each_event_in_order() {
    let gate = gate(1, 5);
    let (tell, heard) = mpsc::channel::<Event>();
    let listener = gate
        .subscribe_with(move |event| tell.send(event).unwrap())
        .unwrap();
    let permit = gate.try_acquire(1).unwrap();
    assert!(gate.try_acquire(1).is_err());
    drop(permit);
    listener.finish();
    let words: Vec<_> = heard.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        words,
        [
            "limit_changed",
            "queue_bound_changed",
            "processing",
            "in_use_changed",
            "rejected",
            "processed",
            "in_use_changed",
        ]
    );
    // It has left: the gate is on its fast path again and tells nobody.
    drop(gate.try_acquire(1).unwrap());
    assert!(heard.try_recv().is_err());
}

#[test]
fn a_function_that_panics_is_called_again_and_harms_nobody() {
    let gate = gate(1, 0);
    let (tell, heard) = mpsc::channel();
    let mut calls = 0;
    let listener = gate
        .subscribe_with(move |_| {
            calls += 1;
            tell.send(calls).unwrap();
            if calls % 2 == 1 {
                std::panic::panic_any("not the limiter's fault");
            }
        })
        .unwrap();
    drop(gate.try_acquire(1).unwrap());
    let calls: Vec<u64> = heard.iter().take(6).collect();
    assert_eq!(calls, [1, 2, 3, 4, 5, 6]);
    drop(gate.try_acquire(1).unwrap());
    assert_eq!(heard.iter().take(4).count(), 4);
    assert_eq!(listener.panics(), 5);
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn a_function_that_never_returns_holds_up_nobody() {
    let gate = gate(1, 0);
    let (release, wait) = mpsc::channel::<()>();
    let (tell, heard) = mpsc::channel();
    let listener = gate
        .subscribe_with(move |_| {
            tell.send(()).unwrap();
            let _ = wait.recv();
        })
        .unwrap();
    heard.recv().unwrap();
    // Far more than its buffer holds, while it is in the call.
    for _ in 0..5_000 {
        drop(gate.try_acquire(1).unwrap());
    }
    assert_eq!(gate.snapshot().granted_total(), 5_000);
    // Dropping it does not wait for the call either.
    drop(listener);
    drop(gate.try_acquire(1).unwrap());
    drop(release);
    assert!(
        heard.recv_timeout(Duration::from_secs(10)).is_err(),
        "not called again"
    );
}

#[test]
fn a_function_may_use_the_limiter_and_counts_what_it_misses() {
    let gate = gate(1, 0);
    let inner = gate.clone();
    let (go, wait) = mpsc::channel::<()>();
    let (tell, heard) = mpsc::channel();
    let mut first = true;
    let listener = gate
        .subscribe(4)
        .listen(move |_| {
            if std::mem::take(&mut first) {
                tell.send(0).unwrap();
                wait.recv().unwrap();
                // Events of its own use do not call it again for ever: they are bounded by its buffer.
                drop(inner.try_acquire(1).unwrap());
            }
            tell.send(1).unwrap();
        })
        .unwrap();
    assert_eq!(heard.recv(), Ok(0));
    for _ in 0..10 {
        drop(gate.try_acquire(1).unwrap());
    }
    go.send(()).unwrap();
    assert_eq!(heard.iter().take(5).sum::<u64>(), 5);
    let missed = listener.missed();
    assert!(missed > 0, "{missed}");
    listener.finish();
}
