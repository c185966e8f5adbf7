//! What a limiter tells those who listen: everything, in order, with the numbers of that moment; and it never waits
//! for them.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Limit, Sample};
use plimsoll::{
    Acquire, Concurrency, Demand, Event, EventKind, Events, Gate, ManualClock, Outcome, Priority,
    Queue, TokenBucket,
};
use proptest::prelude::*;

fn gate(time: &ManualClock, limit: u64, queue: u64) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(queue))
        .clock(time.clock())
        .build()
}

/// What was told, without the counts that changed by it.
fn items(events: &mut Events) -> impl Iterator<Item = Event> {
    events.filter(|event| {
        !matches!(
            event.kind,
            EventKind::InUseChanged | EventKind::QueuedChanged
        )
    })
}

/// What was told: the word, in use, queued.
fn told(events: &mut Events) -> Vec<(&'static str, u64, u64)> {
    items(events)
        .map(|event| (event.kind.as_str(), event.in_use, event.queued))
        .collect()
}

fn poll<'a>(acquire: &mut Pin<Box<Acquire<'a>>>) -> Poll<bool> {
    let mut cx = Context::from_waker(Waker::noop());
    acquire.as_mut().poll(&mut cx).map(|answer| answer.is_ok())
}

#[test]
fn a_newcomer_is_told_what_there_is() {
    let time = ManualClock::new();
    let gate = gate(&time, 3, 7);
    let _out = gate.try_acquire(2).unwrap();
    let mut events = gate.subscribe(10);
    let first = events.next().unwrap();
    assert_eq!(first.kind, EventKind::LimitChanged);
    assert_eq!((first.limit, first.queue_bound), (3, 7));
    assert_eq!((first.in_use, first.queued), (2, 0));
    assert_eq!(events.next().unwrap().kind, EventKind::QueueBoundChanged);
    assert_eq!(events.next(), None);
}

#[test]
fn work_that_waits_is_told_in_order_with_its_times() {
    let time = ManualClock::new();
    let gate = gate(&time, 1, 5);
    let mut events = gate.subscribe(100);
    told(&mut events);

    let running = gate.try_acquire(1).unwrap();
    let demand = Demand::of(1).priority(Priority::Critical);
    let mut waiting = Box::pin(gate.acquire(demand));
    assert!(poll(&mut waiting).is_pending());
    time.advance(Duration::from_millis(30));
    running.finish(Outcome::Success);

    let (critical, normal) = (Priority::Critical, Priority::Normal);
    let span = Duration::from_millis(30);
    let kinds: Vec<EventKind> = items(&mut events).map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [
            EventKind::Processing { priority: normal },
            EventKind::Enqueued { priority: critical },
            EventKind::Processed {
                priority: normal,
                took: span,
                outcome: Outcome::Success
            },
            EventKind::Dequeued {
                priority: critical,
                waited: span
            },
            EventKind::Processing { priority: critical },
        ]
    );
    assert_eq!(poll(&mut waiting), Poll::Ready(true));
    assert_eq!(told(&mut events), [("processed", 0, 0)]);
}

#[test]
fn whoever_is_evicted_on_arrival_was_never_in_the_queue() {
    let time = ManualClock::new();
    let gate = gate(&time, 1, 1);
    let mut events = gate.subscribe(100);
    told(&mut events);
    let _running = gate.try_acquire(1).unwrap();
    let mut first = Box::pin(gate.acquire(1));
    let mut second = Box::pin(gate.acquire(1));
    let critical = Demand::of(1).priority(Priority::Critical);
    let mut third = Box::pin(gate.acquire(critical));
    assert!(poll(&mut first).is_pending());
    assert_eq!(poll(&mut second), Poll::Ready(false));
    assert!(poll(&mut third).is_pending());
    assert_eq!(
        told(&mut events),
        [
            ("processing", 1, 0),
            ("enqueued", 1, 1),
            ("rejected", 1, 1),
            // The critical one takes the place of the first.
            ("dequeued", 1, 0),
            ("rejected", 1, 0),
            ("enqueued", 1, 1),
        ]
    );
    // Who gives up leaves the queue and is not refused.
    drop(third);
    assert_eq!(told(&mut events), [("dequeued", 1, 0)]);
}

#[test]
fn what_was_granted_and_never_read_comes_back() {
    let time = ManualClock::new();
    let gate = gate(&time, 1, 1);
    let running = gate.try_acquire(1).unwrap();
    let mut waiting = Box::pin(gate.acquire(1));
    assert!(poll(&mut waiting).is_pending());
    let mut events = gate.subscribe(100);
    told(&mut events);
    running.undo();
    drop(waiting);
    assert_eq!(
        told(&mut events),
        [
            ("processed", 0, 1),
            ("dequeued", 0, 0),
            ("processing", 0, 0),
            ("processed", 0, 0),
        ]
        .map(|(kind, _, queued)| {
            let in_use = u64::from(matches!(kind, "dequeued" | "processing"));
            (kind, in_use, queued)
        })
    );
}

#[test]
fn changes_of_the_limit_and_of_the_queue_are_told() {
    let time = ManualClock::new();
    let gate = gate(&time, 5, 5);
    let mut events = gate.subscribe(100);
    told(&mut events);
    gate.resize(9).unwrap();
    gate.resize(9).unwrap();
    gate.set_queue_bound(2);
    assert_eq!(gate.snapshot().queue_bound(), 2);
    let seen: Vec<_> = items(&mut events)
        .map(|event| (event.kind.as_str(), event.limit, event.queue_bound))
        .collect();
    assert_eq!(
        seen,
        [("limit_changed", 9, 5), ("queue_bound_changed", 9, 2)]
    );
}

#[test]
fn a_limit_that_finds_itself_tells_what_it_found() {
    #[derive(Debug)]
    struct Growing(u64);
    impl Limit for Growing {
        fn limit(&self) -> u64 {
            self.0
        }
        fn sample(&mut self, _sample: &Sample) {
            self.0 += 10;
        }
    }
    let gate = Gate::builder(Adaptive::new(Growing(1)))
        .queue(Queue::fifo(2))
        .clock(ManualClock::new().clock())
        .build();
    let mut events = gate.subscribe(100);
    told(&mut events);
    gate.try_acquire(1).unwrap().finish(Outcome::Success);
    let seen: Vec<_> = items(&mut events)
        .map(|event| (event.kind.as_str(), event.limit, event.queue_bound))
        .collect();
    assert_eq!(
        seen,
        [
            ("processing", 1, 2),
            ("processed", 1, 2),
            ("limit_changed", 11, 4),
            ("queue_bound_changed", 11, 4),
        ]
    );
}

#[test]
fn a_rate_has_no_permits_that_come_back() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .clock(time.clock())
        .build();
    let mut events = gate.subscribe(10);
    drop(gate.try_acquire(1).unwrap());
    assert!(gate.try_acquire(1).is_err());
    let words: Vec<_> = items(&mut events)
        .map(|event| event.kind.as_str())
        .collect();
    assert_eq!(words, ["limit_changed", "processing", "rejected"]);
    drop(events);
    time.advance(Duration::from_secs(1));
    assert!(gate.try_acquire(1).is_ok());
    assert!(gate.try_acquire(1).is_err());
}

#[test]
fn a_subscriber_that_does_not_look_loses_and_holds_up_nobody() {
    let gate = gate(&ManualClock::new(), 1, 0);
    let mut events = gate.subscribe(4);
    for _ in 0..100 {
        drop(gate.try_acquire(1).unwrap());
    }
    assert_eq!(events.by_ref().count(), 4);
    assert_eq!(events.missed(), 2 + 400 - 4);
    drop(gate.try_acquire(1).unwrap());
    assert_eq!(told(&mut events).len(), 2, "it is told again from then on");

    // A subscriber that dies in the middle of looking is simply gone.
    let died = catch_unwind(AssertUnwindSafe(move || {
        drop(gate.try_acquire(1).unwrap());
        let _first = events.next();
        std::panic::panic_any("not the limiter's fault");
    }));
    assert!(died.is_err());
}

#[test]
fn several_listen_and_each_is_told_everything() {
    let gate = gate(&ManualClock::new(), 2, 0);
    let (mut one, mut two) = (gate.subscribe(100), gate.subscribe(100));
    drop(gate.try_acquire(1).unwrap());
    assert_eq!(items(&mut one).count(), 4);
    assert_eq!(told(&mut two).len(), 4);
    drop(one);
    drop(gate.try_acquire(1).unwrap());
    assert_eq!(told(&mut two).len(), 2);
}

#[test]
fn threads_are_counted_exactly_while_somebody_listens() {
    let gate = Gate::builder(Concurrency::new(3))
        .queue(Queue::fifo(0))
        .build();
    let events = gate.subscribe(1_000_000);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    drop(gate.try_acquire(1));
                }
            });
        }
    });
    let (mut in_use, mut granted, mut refused) = (0_i64, 0_u64, 0_u64);
    for event in events {
        match event.kind {
            EventKind::Processing { .. } => {
                in_use += 1;
                granted += 1;
            }
            EventKind::Processed { .. } => in_use -= 1,
            EventKind::Rejected { .. } => refused += 1,
            _ => {}
        }
        assert_eq!(u64::try_from(in_use), Ok(event.in_use));
        assert!(event.in_use <= 3);
    }
    let snapshot = gate.snapshot();
    assert_eq!((in_use, granted + refused), (0, 20_000));
    assert_eq!(snapshot.granted_total(), granted);
    assert_eq!(snapshot.denied_total(), refused);
}

proptest! {
    /// Subscribing and unsubscribing at any moment changes no answer, and what is told adds up.
    #[test]
    fn listening_changes_nothing(
        ops in prop::collection::vec((0_u8..6, 1_u64..3), 1..100),
    ) {
        let time = ManualClock::new();
        let (heard, unheard) = (gate(&time, 3, 4), gate(&time, 3, 4));
        let mut events: Option<Events> = None;
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (op, cost) in ops {
            match op {
                0 => events = Some(heard.subscribe(1000)),
                1 => events = None,
                2 => {
                    let (a, b) = (heard.try_acquire(cost), unheard.try_acquire(cost));
                    prop_assert_eq!(a.is_ok(), b.is_ok());
                    left.extend(a.ok());
                    right.extend(b.ok());
                }
                3 => {
                    left.pop();
                    right.pop();
                }
                4 => {
                    let (mut a, mut b) = (Box::pin(heard.acquire(cost)), Box::pin(unheard.acquire(cost)));
                    prop_assert_eq!(poll(&mut a), poll(&mut b));
                    first.push(a);
                    second.push(b);
                }
                _ => {
                    first.pop();
                    second.pop();
                }
            }
            prop_assert_eq!(heard.snapshot(), unheard.snapshot());
            if let Some(last) = events.as_mut().and_then(Iterator::last) {
                prop_assert_eq!(last.in_use, heard.snapshot().in_use());
                prop_assert_eq!(last.queued, heard.snapshot().queued());
            }
        }
    }
}
