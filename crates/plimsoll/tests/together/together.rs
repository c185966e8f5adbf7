//! Several limiters asked at once: what is refused leaves no trace, costs of one limiter add up, and one deadline
//! holds on every clock.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::waiter::Waiter;
use plimsoll::{
    All, Concurrency, Demand, FixedWindow, Gate, Limiter, ManualClock, Moment, PenaltyBucket,
    Priority, Queue, Quota, Reason, Rule, SlidingLog, Smooth, TokenBucket,
};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_nanos(1);

fn gate<R: Rule>(rule: R, time: &ManualClock) -> Arc<Gate<R>> {
    Arc::new(Gate::builder(rule).clock(time.clock()).build())
}

fn queued<R: Rule>(rule: R, time: &ManualClock) -> Arc<Gate<R>> {
    let builder = Gate::builder(rule).queue(Queue::fifo(1000));
    Arc::new(builder.clock(time.clock()).build())
}

fn all(members: &[Arc<dyn Limiter>]) -> All {
    All::new(members.iter().cloned())
}

fn per_second(units: u64) -> TokenBucket {
    TokenBucket::greedy(Quota::per_second(units))
}

// One limiter several times.

/// `acquire` spun for ever: what it took for the first mention was missing for the second.
#[test]
fn costs_of_one_limiter_add_up() {
    let time = ManualClock::new();
    let slots = queued(Concurrency::new(3), &time);
    let twice = all(&[slots.clone(), slots.clone()]);
    let nested = all(&[Arc::new(twice.clone()), slots.clone()]);
    let permit = twice.try_acquire(1).unwrap();
    assert_eq!(slots.snapshot().in_use(), 2);
    assert_eq!(slots.snapshot().granted_total(), 1);
    drop(permit);
    assert_eq!(slots.snapshot().in_use(), 0);
    let permit = nested.try_acquire(1).unwrap();
    assert_eq!(slots.snapshot().in_use(), 3);
    permit.undo();
    assert_eq!(
        (slots.snapshot().in_use(), slots.snapshot().granted_total()),
        (0, 1)
    );

    let held = slots.try_acquire(2).unwrap();
    let mut waiter = Waiter::new(twice.acquire(1));
    assert_eq!(slots.snapshot().waiters(), 1);
    drop(held);
    let Poll::Ready(Ok(permit)) = waiter.look() else {
        panic!("two are free");
    };
    assert_eq!(slots.snapshot().in_use(), 2);
    drop(permit);
}

#[test]
fn what_one_limiter_can_never_grant_twice_is_too_large_at_once() {
    let time = ManualClock::new();
    for limit in [1, 3, u64::MAX] {
        let slots = queued(Concurrency::new(limit), &time);
        let twice = all(&[slots.clone(), slots.clone()]);
        let cost = limit / 2 + 1;
        assert_eq!(
            twice.try_acquire(cost).unwrap_err().reason(),
            Reason::TooLarge
        );
        assert_eq!(
            twice.estimate(Demand::of(cost)).unwrap_err().reason(),
            Reason::TooLarge
        );
        assert_eq!(
            twice.reserve(Demand::of(cost)).unwrap_err().reason(),
            Reason::TooLarge
        );
        let Poll::Ready(Err(denied)) = poll(&mut twice.acquire(cost)) else {
            panic!("it can never be granted");
        };
        assert_eq!(denied.reason(), Reason::TooLarge);
        assert_eq!(slots.snapshot().in_use(), 0);
    }
}

#[test]
fn a_reservation_of_one_limiter_twice_takes_both_costs() {
    let time = ManualClock::new();
    let bucket = gate(per_second(2), &time);
    let twice = all(&[bucket.clone(), bucket.clone()]);
    let reservation = twice.reserve(Demand::ONE).unwrap();
    assert_eq!(bucket.snapshot().available(), 0);
    drop(reservation);
    assert_eq!(bucket.snapshot().available(), 2);
}

/// One that has to queue for its reservation was asked twice.
#[test]
fn each_member_is_reserved_with_once() {
    let time = ManualClock::new();
    let window = gate(FixedWindow::new(Quota::per_second(10)), &time);
    let log = gate(SlidingLog::new(Quota::per_second(10)), &time);
    let both = all(&[log.clone(), window.clone()]);
    both.try_acquire(10).unwrap().forget();
    let reserved = both.reserve(Demand::of(4)).unwrap();
    assert_eq!(
        (log.snapshot().queued(), window.snapshot().queued()),
        (4, 4)
    );
    time.advance(SECOND);
    let permit = reserved.wait_blocking().unwrap();
    assert_eq!(
        (log.snapshot().available(), window.snapshot().available()),
        (6, 6)
    );
    drop(permit);
}

// A refusal leaves no trace.

/// What a limiter answers now and later, if nobody comes in between.
fn answers(limiter: &dyn Limiter) -> Vec<Result<(), plimsoll::Denied>> {
    (0..=4)
        .map(|cost| limiter.estimate(Demand::of(cost)))
        .collect()
}

/// A warm-up that was asked and put back had lost what it had stored. Where the one that refuses has subscribers, its state
/// is behind its lock, and both are decided together; otherwise its word refuses before the warm-up is asked.
#[test]
fn a_refused_attempt_leaves_no_trace_in_a_warm_up() {
    let time = ManualClock::new();
    let bursty = Smooth::bursty(2.0, Duration::from_secs(1));
    let warm_up = Smooth::warm_up(2.0, Duration::from_secs(4), 3.0);
    for (smooth, subscribers) in [
        (warm_up.clone(), false),
        (warm_up, true),
        (bursty.clone(), false),
        (bursty, true),
    ] {
        let full = gate(Concurrency::new(1), &time);
        let _held = full.try_acquire(1).unwrap();
        let _events = subscribers.then(|| full.subscribe(1));
        let asked = gate(smooth.clone(), &time);
        let twin = gate(smooth, &time);
        for members in [
            [asked.clone() as Arc<dyn Limiter>, full.clone()],
            [full.clone(), asked.clone()],
        ] {
            let both = all(&members);
            for millis in [0, 300, 1700] {
                time.advance(Duration::from_millis(millis));
                for cost in 1..=4 {
                    both.try_acquire(cost).unwrap_err();
                    drop(poll(&mut both.acquire(cost)));
                    both.reserve(Demand::of(cost)).unwrap_err();
                }
                assert_eq!(answers(&*asked), answers(&*twin));
            }
            drop((asked.try_acquire(2), twin.try_acquire(2)));
            assert_eq!(answers(&*asked), answers(&*twin));
        }
    }
}

fn penalty(bucket: TokenBucket) -> PenaltyBucket {
    PenaltyBucket::new(bucket)
        .lockout(2, Duration::from_secs(30))
        .soft_window(Duration::from_secs(60))
}

/// The count of refusals was cleared by what was taken and put back.
#[test]
fn a_refused_attempt_leaves_the_count_of_refusals_alone() {
    for subscribers in [false, true] {
        let time = ManualClock::new();
        let strict = gate(penalty(per_second(3)), &time);
        let full = gate(Concurrency::new(1), &time);
        let _held = full.try_acquire(1).unwrap();
        let _events = subscribers.then(|| full.subscribe(1));
        strict.try_acquire(1).unwrap().forget();
        let denied = strict.try_acquire(3).unwrap_err();
        assert_eq!(denied.reason(), Reason::SoftThrottle);
        // It has a token, but there is no slot.
        let both = all(&[strict.clone(), full.clone()]);
        let denied = both.try_acquire(1).unwrap_err();
        assert_eq!(denied.reason(), Reason::Exhausted);
        let denied = strict.try_acquire(3).unwrap_err();
        assert_eq!(denied.reason(), Reason::LockedOut);
    }
}

/// Thirty seconds were told, the lockout of a refusal that never was, where one second is enough. With subscribers, the one
/// that refuses first is decided together with the other.
#[test]
fn only_who_refuses_counts_the_refusal() {
    for subscribers in [false, true] {
        let time = ManualClock::new();
        let strict = gate(penalty(per_second(1)), &time);
        let empty = gate(per_second(1).initial(0), &time);
        let _events = subscribers.then(|| empty.subscribe(1));
        strict.try_acquire(1).unwrap().forget();
        strict.try_acquire(1).unwrap_err();
        let both = all(&[empty.clone(), strict.clone()]);
        for _ in 0..5 {
            let denied = both.try_acquire(1).unwrap_err();
            assert_eq!(denied.retry_after(), Some(SECOND));
        }
        assert_eq!(strict.snapshot().denied_total(), 1);
        time.advance(SECOND);
        both.try_acquire(1).unwrap().forget();

        // It counts its own: the second in a row locks out.
        for both in [
            all(&[strict.clone(), gate(per_second(10), &time)]),
            // Though another would refuse as well: it is asked first.
            all(&[strict.clone(), empty.clone()]),
        ] {
            let denied = both.try_acquire(1).unwrap_err();
            assert_eq!(denied.reason(), Reason::SoftThrottle);
            let denied = both.try_acquire(1).unwrap_err();
            assert_eq!(denied.reason(), Reason::LockedOut);
            assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
            time.advance(Duration::from_secs(30));
            strict.try_acquire(1).unwrap().forget();
            empty.try_acquire(1).unwrap().forget();
        }
        assert_eq!(strict.snapshot().denied_total(), 5);
    }
}

/// It was that of the one that refuses longest; and who came back when the first would have granted was refused again.
#[test]
fn the_refusal_is_that_of_the_first_and_lasts_as_long_as_the_longest() {
    let time = ManualClock::new();
    let named = |name: &str, millis| {
        let rule = TokenBucket::greedy(Quota::new(1, Duration::from_millis(millis))).initial(0);
        Arc::new(Gate::builder(rule).clock(time.clock()).name(name).build()) as Arc<dyn Limiter>
    };
    let three = all(&[named("a", 10), named("b", 30), named("c", 20)]);
    let denied = three.try_acquire(1).unwrap_err();
    assert_eq!(
        (denied.limiter(), denied.retry_after()),
        (Some("a"), Some(Duration::from_millis(30)))
    );
    assert_eq!(three.estimate(Demand::ONE), Err(denied));
}

/// On a clock that moves by itself each refused reservation kept a token of the first member: it was given back only in
/// the same nanosecond.
#[test]
fn refused_reservations_take_nothing_though_time_goes_on() {
    let first = Arc::new(
        Gate::builder(TokenBucket::greedy(Quota::new(
            5,
            Duration::from_secs(1000),
        )))
        .clock(plimsoll::Clock::precise())
        .build(),
    );
    let full = Arc::new(
        Gate::builder(Concurrency::new(1))
            .clock(plimsoll::Clock::precise())
            .build(),
    );
    let _held = full.try_acquire(1).unwrap();
    let both = all(&[first.clone(), full.clone()]);
    for _ in 0..5 {
        both.reserve(Demand::ONE).unwrap_err();
    }
    assert_eq!(first.snapshot().available(), 5);
}

// One deadline on every clock.

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

// Whoever waits for several is not passed for ever.

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

/// Both remember what is undone: whichever of them refuses is asked first. Asked in the order of the members, the first had
/// lost a part of its warm-up to a reservation that was never made.
#[test]
fn a_refused_reservation_leaves_no_trace_where_two_members_remember() {
    for refuser in 0..2 {
        let time = ManualClock::new();
        let smooth = || gate(Smooth::warm_up(10.0, SECOND * 3, 3.0), &time);
        let (members, twin) = ([smooth(), smooth()], smooth());
        let _busy = members[refuser].reserve(40).unwrap();
        let both = all(&[members[0].clone(), members[1].clone()]);
        for _ in 0..5 {
            time.advance(SECOND / 10);
            let demand = Demand::of(3).within(Duration::from_millis(1));
            both.reserve(demand).unwrap_err();
        }
        let granted = &members[1 - refuser];
        for cost in [1, 5, 2] {
            let waits = [granted, &twin].map(|gate| gate.reserve(cost).unwrap().wait());
            assert_eq!(waits[0], waits[1], "{refuser}");
            time.advance(SECOND * 2);
        }
    }
}
