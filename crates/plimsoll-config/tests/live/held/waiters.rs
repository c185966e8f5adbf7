//! Whoever waits for a limiter, or for a key, goes on waiting and is served.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use plimsoll::{Demand, ManualClock, PerKey, Reason};

use super::{RATES, SLOTS, file, held, held_keyed};
use crate::files::{build, poll, replace};

#[test]
fn who_waits_is_served_by_whatever_comes_and_in_order() {
    for from in [&RATES[..], &SLOTS].concat() {
        for to in [&RATES[..], &SLOTS].concat() {
            for queue in [
                "",
                ", queue: { bound: 1 }",
                ", queue: { bound: 1, timeout: 1ms }",
            ] {
                let time = ManualClock::new();
                let limits = build(&file(&format!("{from}, queue: {{ bound: 1000 }}")), &time);
                let a = held(&limits);
                let used: Vec<_> = (0..10).map(|_| a.try_acquire(1.into()).ok()).collect();
                let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(a.acquire(1.into()))).collect();
                for one in &mut waiting {
                    assert!(poll(one.as_mut()).is_pending(), "{from}");
                }
                replace(&limits, &file(&format!("{to}{queue}")));
                drop(used);
                let mut served = Vec::new();
                for _ in 0..400 {
                    for (at, one) in waiting.iter_mut().enumerate() {
                        if served.iter().any(|(done, _)| *done == at) {
                            continue;
                        }
                        match poll(one.as_mut()) {
                            Poll::Pending => {}
                            Poll::Ready(Ok(permit)) => served.push((at, permit)),
                            Poll::Ready(Err(denied)) => panic!("{from} -> {to}{queue}: {denied}"),
                        }
                    }
                    time.advance(Duration::from_secs(60));
                }
                let order: Vec<_> = served.iter().map(|(at, _)| *at).collect();
                assert_eq!(order, [0, 1, 2, 3, 4], "{from} -> {to}{queue}");
            }
        }
    }
}

#[test]
fn who_waits_with_a_key_goes_on_waiting_and_is_served() {
    for from in RATES.iter().chain(&SLOTS[..1]) {
        for to in RATES.iter().chain(&SLOTS[..1]) {
            for more in [
                ", keyed: true",
                ", keyed: true, queue: { bound: 1 }",
                ", keyed: true, max_keys: 5",
                "",
            ] {
                let time = ManualClock::new();
                let text = file(&format!("{from}, keyed: true, queue: {{ bound: 50 }}"));
                let limits = build(&text, &time);
                let a = held_keyed(&limits);
                let used: Vec<_> = (0..10).map(|_| a.try_acquire("k", 1).ok()).collect();
                let mut waiting: Vec<_> = (0..3)
                    .map(|_| PerKey::acquire_owned(&a, "k", Demand::ONE))
                    .collect();
                for one in &mut waiting {
                    assert!(poll(Pin::new(one)).is_pending(), "{from}");
                }
                replace(&limits, &file(&format!("{to}{more}")));
                drop(used);
                let mut served = Vec::new();
                for _ in 0..100 {
                    waiting.retain_mut(|one| match poll(Pin::new(one)) {
                        Poll::Pending => true,
                        Poll::Ready(Ok(permit)) => {
                            served.push(permit);
                            false
                        }
                        Poll::Ready(Err(denied)) => panic!("{from} -> {to}{more}: {denied}"),
                    });
                    time.advance(Duration::from_secs(60));
                }
                assert_eq!(served.len(), 3, "{from} -> {to}{more}");
            }
        }
    }
}

#[test]
fn keyed_slots_are_resized_with_permits_out_and_waiters_in() {
    // It used to close the limit, to refuse who waits, and to admit old and new slots beside each other.
    let time = ManualClock::new();
    let text = |limit, more: &str| {
        file(&format!(
            "kind: concurrency, limit: {limit}, keyed: true, queue: {{ bound: 5 }}{more}"
        ))
    };
    let limits = build(&text(2, ""), &time);
    let a = held_keyed(&limits);
    let out = [
        a.try_acquire("k", 1).expect("room"),
        a.try_acquire("k", 1).expect("room"),
    ];
    let mut waiting = pin!(a.acquire("k", 1));
    assert!(poll(waiting.as_mut()).is_pending());
    for more in ["", ", max_keys: 77"] {
        assert_eq!(replace(&limits, &text(1, more)).changed, ["a"]);
        assert!(a.try_acquire("k", 1).is_err(), "what is out counts");
        assert!(poll(waiting.as_mut()).is_pending());
    }
    replace(&limits, &text(3, ""));
    let Poll::Ready(Ok(third)) = poll(waiting.as_mut()) else {
        panic!("there is room now");
    };
    assert!(a.try_acquire("k", 1).is_err());
    drop((out, third));
    assert_eq!(a.snapshot().in_use(), 0);
}

#[test]
fn a_deadline_goes_on_where_a_waiter_is_moved_to() {
    let time = ManualClock::new();
    let limits = build(
        &file("kind: concurrency, limit: 1, queue: { bound: 5 }"),
        &time,
    );
    let a = held(&limits);
    let _out = a.try_acquire(1.into()).expect("room");
    let mut waiting = pin!(a.acquire(Demand::ONE.within(Duration::from_secs(10))));
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(Duration::from_secs(6));
    replace(
        &limits,
        &file("kind: adaptive, algorithm: aimd, min: 1, initial: 1, max: 1, queue: { bound: 5 }"),
    );
    time.advance(Duration::from_secs(3));
    assert!(poll(waiting.as_mut()).is_pending());
    time.advance(Duration::from_millis(1001));
    let Poll::Ready(Err(denied)) = poll(waiting.as_mut()) else {
        panic!("ten seconds are over");
    };
    assert_eq!(denied.reason(), Reason::TimedOut);
}

#[test]
fn what_was_granted_in_the_last_moment_is_not_lost() {
    let time = ManualClock::new();
    let limits = build(
        &file("kind: concurrency, limit: 1, queue: { bound: 5 }"),
        &time,
    );
    let a = held(&limits);
    let out = a.try_acquire(1.into()).expect("room");
    let mut waiting = pin!(a.acquire(1.into()));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(out); // it has the slot now, and has not looked
    replace(
        &limits,
        &file("kind: adaptive, algorithm: aimd, min: 1, initial: 1, max: 1"),
    );
    assert!(a.try_acquire(1.into()).is_err(), "the slot is taken");
    let Poll::Ready(Ok(permit)) = poll(waiting.as_mut()) else {
        panic!("it was granted");
    };
    drop(permit);
    assert!(a.try_acquire(1.into()).is_ok());
}
