//! What several limiters as one tell those who listen.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use plimsoll::{
    All, Concurrency, Demand, EventKind, Gate, Limiter, ManualClock, Outcome, Priority, Queue,
    TokenBucket,
};

use crate::waiter::Waiter;

fn both(time: &ManualClock) -> (Gate<Concurrency>, All) {
    let rate = Gate::builder(TokenBucket::per_second(100))
        .clock(time.clock())
        .build();
    let slots = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let members: [Arc<dyn Limiter>; 2] = [Arc::new(rate), Arc::new(slots.clone())];
    (slots, All::new(members))
}

#[test]
fn a_demand_is_told_from_the_queue_to_its_return() {
    let time = ManualClock::new();
    let (_, both) = both(&time);
    let mut events = both.subscribe(100);
    let running = both.try_acquire(1).unwrap();
    let priority = Priority::Critical;
    let mut waiting = Waiter::new(both.acquire(Demand::ONE.priority(priority)));
    assert!(both.try_acquire(1).is_err());
    let span = Duration::from_millis(30);
    time.advance(span);
    running.finish(Outcome::Success);
    let std::task::Poll::Ready(Ok(permit)) = waiting.look() else {
        panic!("it was served");
    };
    drop(permit);
    let kinds: Vec<EventKind> = events.by_ref().map(|event| event.kind).collect();
    let normal = Priority::Normal;
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    assert_eq!(kinds[0], EventKind::Processing { priority: normal });
    assert_eq!(kinds[1], EventKind::Enqueued { priority });
    assert_eq!(kinds[2].as_str(), "rejected");
    assert_eq!(
        kinds[3],
        EventKind::Processed {
            priority: normal,
            took: span,
            outcome: Outcome::Success
        }
    );
    let waited = span;
    assert_eq!(kinds[4], EventKind::Dequeued { priority, waited });
    assert_eq!(kinds[5], EventKind::Processing { priority });
    assert_eq!(kinds[6].as_str(), "processed");
}

#[test]
fn whoever_gives_up_leaves_and_an_undone_permit_is_processed() {
    let time = ManualClock::new();
    let (slots, both) = both(&time);
    let (tell, heard) = mpsc::channel();
    let listener = both
        .subscribe_with(move |event| tell.send((event.kind.as_str(), event.in_use)).unwrap())
        .unwrap();
    let running = slots.try_acquire(1).unwrap();
    drop(Waiter::new(both.acquire(1)));
    drop(running);
    both.try_acquire(1).unwrap().undo();
    listener.finish();
    let told: Vec<_> = heard.iter().collect();
    assert_eq!(
        told,
        [
            ("enqueued", 1),
            ("dequeued", 1),
            ("processing", 1),
            ("processed", 0),
        ]
    );
}
