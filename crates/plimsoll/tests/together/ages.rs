//! Whoever waits for several limiters is not passed for ever, and its deadline holds on every clock.

use std::task::Poll;
use std::time::Duration;

use crate::gates::{all, queued};
use crate::poll::poll;
use crate::waiter::Waiter;
use plimsoll::{Concurrency, Demand, ManualClock, Moment, Priority, Reason};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_nanos(1);

/// The deadline was a moment of the first clock and was compared with the second.
#[test]
fn a_deadline_holds_on_the_clock_of_each_member() {
    for (here, there) in [(0, 3_000_000), (3_000_000, 0), (5, 7)] {
        let start =
            |seconds: u64| ManualClock::starting_at(Moment::from_nanos(seconds * 1_000_000_000));
        let (one, other) = (start(here), start(there));
        let free = queued(Concurrency::new(1), &one);
        let busy = queued(Concurrency::new(1), &other);
        let both = all(&[free.clone(), busy.clone()]);
        let until = one.now().plus(SECOND);
        for demand in [Demand::ONE.within(SECOND), Demand::ONE.until(until)] {
            let held = busy.try_acquire(1).unwrap();
            let mut waiter = Waiter::new(both.acquire(demand));
            drop(held);
            assert!(matches!(waiter.look(), Poll::Ready(Ok(_))));
        }
        let _held = busy.try_acquire(1).unwrap();
        let mut waiter = Waiter::new(both.acquire(Demand::ONE.within(SECOND)));
        other.advance(SECOND);
        assert!(waiter.look().is_pending());
        other.advance(TICK);
        assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::TimedOut))));
        assert_eq!(free.snapshot().in_use(), 0);
    }
}

/// With a queue at each of two members it was never served: whenever one had room, the other's went to those who had
/// come later.
#[test]
fn steady_queues_at_both_members_do_not_starve_one_who_waits_for_both() {
    let time = ManualClock::new();
    let (a, b) = (
        queued(Concurrency::new(1), &time),
        queued(Concurrency::new(1), &time),
    );
    let both = all(&[a.clone(), b.clone()]);
    let mut crowd: Vec<Vec<_>> = [&a, &b]
        .into_iter()
        .map(|gate| vec![gate.acquire(1), gate.acquire(1), gate.acquire(1)])
        .collect();
    let mut held: Vec<Option<plimsoll::Permit<'_>>> = Vec::new();
    for line in &mut crowd {
        let Poll::Ready(Ok(permit)) = poll(&mut line.remove(0)) else {
            panic!("it is free");
        };
        held.push(Some(permit));
        for waiting in line.iter_mut() {
            assert!(poll(waiting).is_pending());
        }
    }
    let mut waiter = Waiter::new(both.acquire(1));
    let mut later = 0;
    for round in 0..100 {
        // One of the two gives back, the next of its line takes over, and a newcomer joins it.
        let which = round % 2;
        let gate = [&a, &b][which];
        let mut newcomer = gate.acquire(1);
        assert!(poll(&mut newcomer).is_pending());
        crowd[which].push(newcomer);
        held[which] = None;
        if waiter.woken() > 0
            && let Poll::Ready(answer) = waiter.look()
        {
            drop(answer.unwrap());
            assert!(later <= 4, "{later} who came later were served before");
            return;
        }
        let line = &mut crowd[which];
        if let Poll::Ready(answer) = poll(&mut line[0]) {
            held[which] = Some(answer.unwrap());
            drop(line.remove(0));
            later += u64::from(round >= 4);
        }
    }
    panic!("never served");
}

/// It joins the second queue later than those who wait there, and has waited longer.
#[test]
fn whoever_waits_for_several_keeps_its_age_in_a_queue_that_it_joins_later() {
    let time = ManualClock::new();
    let (a, b) = (
        queued(Concurrency::new(1), &time),
        queued(Concurrency::new(1), &time),
    );
    let both = all(&[a.clone(), b.clone()]);
    let held_a = a.try_acquire(1).unwrap();
    let mut first = Waiter::new(both.acquire(1));
    time.advance(SECOND);
    let held_b = b.try_acquire(1).unwrap();
    let mut second = Waiter::new(b.acquire(1));
    time.advance(SECOND);
    drop(held_a);
    assert!(first.look().is_pending());
    drop(held_b);
    assert!(second.look().is_pending(), "the older one goes first");
    assert!(matches!(first.look(), Poll::Ready(Ok(_))));
    assert!(matches!(second.look(), Poll::Ready(Ok(_))));
}

/// Two who wait for the same two, in opposite orders, do not block each other.
#[test]
fn opposite_orders_do_not_block_each_other() {
    let time = ManualClock::new();
    let (a, b) = (
        queued(Concurrency::new(1), &time),
        queued(Concurrency::new(1), &time),
    );
    let there = all(&[a.clone(), b.clone()]);
    let back = all(&[b.clone(), a.clone()]);
    let held_a = a.try_acquire(1).unwrap();
    let held_b = b.try_acquire(1).unwrap();
    let mut first = Waiter::new(there.acquire(1));
    let mut second = Waiter::new(back.acquire(1));
    drop(held_a);
    assert!(first.look().is_pending());
    drop(held_b);
    assert!(second.look().is_pending(), "the older one goes first");
    let Poll::Ready(Ok(permit)) = first.look() else {
        panic!("both are kept for it");
    };
    assert!(second.look().is_pending());
    drop(permit);
    assert!(matches!(second.look(), Poll::Ready(Ok(_))));
}

/// Keeping room for one who waits elsewhere does not close the rest of a limit.
#[test]
fn only_what_it_needs_is_kept_free_for_one_who_waits_elsewhere() {
    let time = ManualClock::new();
    let wide = queued(Concurrency::new(10), &time);
    let narrow = queued(Concurrency::new(1), &time);
    let both = all(&[wide.clone(), narrow.clone()]);
    let all_wide = wide.try_acquire(10).unwrap();
    let slot = narrow.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(both.acquire(1));
    drop(all_wide);
    assert!(waiter.look().is_pending());
    // It stands in both lines, and one slot of the wide one is its own.
    let nine = wide.try_acquire(9).unwrap();
    assert_eq!(wide.try_acquire(1).unwrap_err().reason(), Reason::Exhausted);
    let mut behind = Waiter::new(wide.acquire(1));
    // Others of a higher class come first, as always.
    let critical = wide
        .try_acquire(Demand::ONE.priority(Priority::Critical))
        .unwrap();
    drop(critical);
    assert!(behind.look().is_pending());
    drop(slot);
    let Poll::Ready(Ok(permit)) = waiter.look() else {
        panic!("all it needs is free");
    };
    assert_eq!(
        (wide.snapshot().in_use(), narrow.snapshot().in_use()),
        (10, 1)
    );
    drop(nine);
    assert!(matches!(behind.look(), Poll::Ready(Ok(_))));
    drop(permit);
}

/// A place that is not given up would be kept for ever: those behind it are never served.
#[test]
fn one_who_gives_up_leaves_every_line() {
    let time = ManualClock::new();
    let (a, b) = (
        queued(Concurrency::new(1), &time),
        queued(Concurrency::new(1), &time),
    );
    let both = all(&[a.clone(), b.clone()]);
    let held_a = a.try_acquire(1).unwrap();
    let _held_b = b.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(both.acquire(1));
    drop(held_a);
    assert!(waiter.look().is_pending());
    assert_eq!((a.snapshot().waiters(), b.snapshot().waiters()), (1, 1));
    let mut behind = Waiter::new(a.acquire(1));
    drop(waiter);
    assert_eq!((a.snapshot().waiters(), b.snapshot().waiters()), (0, 0));
    assert!(matches!(behind.look(), Poll::Ready(Ok(_))));
    // A place that is lost loses the others.
    let held_a = a.try_acquire(1);
    let mut waiter = Waiter::new(both.acquire(1));
    drop(held_a);
    b.close();
    assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::Closed))));
    assert_eq!((a.snapshot().waiters(), b.snapshot().waiters()), (0, 0));
}
