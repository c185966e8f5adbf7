//! Waiting for several limiters: in the queue of the one that refuses, holding nothing meanwhile.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::rules;
use crate::waiter::Waiter;
use plimsoll::{
    All, Concurrency, Demand, Gate, Limiter, ManualClock, Queue, Quota, Reason, Rule, TokenBucket,
};

const TEN: Quota = Quota::per_second(10);
const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_nanos(1);

fn gate<R: Rule>(name: &str, rule: R, time: &ManualClock) -> Arc<Gate<R>> {
    let builder = Gate::builder(rule).name(name).queue(Queue::fifo(10));
    Arc::new(builder.clock(time.clock()).build())
}

fn slots(name: &str, time: &ManualClock) -> Arc<Gate<Concurrency>> {
    gate(name, Concurrency::new(1), time)
}

fn waiters(limiters: &[&dyn Limiter]) -> Vec<u64> {
    let seen = limiters.iter().map(|limiter| limiter.snapshot());
    seen.map(|snapshot| snapshot.waiters()).collect()
}

#[test]
fn it_waits_where_it_is_refused_and_holds_nothing_meanwhile() {
    let time = ManualClock::new();
    let rates = rules::rates(TEN, Some(Queue::fifo(10)), &time.clock());
    let busy = slots("busy", &time);
    let all = All::new(
        rates
            .iter()
            .cloned()
            .chain([busy.clone() as Arc<dyn Limiter>]),
    );
    let held = busy.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(all.acquire(1));
    assert_eq!(waiters(&[&*busy, &all]), [1, 1]);
    for rate in &rates {
        assert_eq!(rate.snapshot().available(), 10, "{:?}", rate.name());
    }
    drop(held);
    assert_eq!(waiter.woken(), 1);
    let Poll::Ready(Ok(permit)) = waiter.look() else {
        panic!("all have something");
    };
    for rate in &rates {
        assert_eq!(rate.snapshot().available(), 9, "{:?}", rate.name());
    }
    assert_eq!(busy.snapshot().in_use(), 1);
    drop(permit);
    assert_eq!(busy.snapshot().in_use(), 0);
    let totals = all.snapshot();
    assert_eq!((totals.granted_total(), totals.denied_total()), (1, 0));
}

#[test]
fn it_goes_on_to_wait_where_it_is_refused_by_then() {
    let time = ManualClock::new();
    let rate = gate("rate", TokenBucket::greedy(TEN), &time);
    let (a, b) = (slots("a", &time), slots("b", &time));
    let left = || rate.snapshot().available();
    // It waits for `a` first, then for one that is asked after it, or before.
    let orders: [[Arc<dyn Limiter>; 3]; 3] = [
        [a.clone(), rate.clone(), b.clone()],
        [rate.clone(), a.clone(), b.clone()],
        [rate.clone(), b.clone(), a.clone()],
    ];
    for members in orders {
        let all = All::new(members);
        let before = left();
        let held_a = a.try_acquire(1).unwrap();
        let mut waiter = Waiter::new(all.acquire(1));
        assert_eq!(waiters(&[&*a, &*b]), [1, 0]);
        let held_b = b.try_acquire(1).unwrap();
        drop(held_a);
        assert!(waiter.look().is_pending());
        // It keeps its place, but nothing of what there is room for.
        assert_eq!(waiters(&[&*a, &*b]), [1, 1]);
        assert_eq!((a.snapshot().in_use(), left()), (0, before));
        drop(held_b);
        let Poll::Ready(Ok(permit)) = waiter.look() else {
            panic!("all have something");
        };
        assert_eq!((a.snapshot().in_use(), b.snapshot().in_use()), (1, 1));
        assert_eq!(left(), before - 1);
        drop(permit);
    }
}

#[test]
fn dropping_it_leaves_the_queue_and_takes_nothing() {
    let time = ManualClock::new();
    let rates = rules::rates(TEN, Some(Queue::fifo(10)), &time.clock());
    let busy = slots("busy", &time);
    let all = All::new(
        rates
            .iter()
            .cloned()
            .chain([busy.clone() as Arc<dyn Limiter>]),
    );
    let held = busy.try_acquire(1).unwrap();
    let waiting = Waiter::new(all.acquire(1));
    let told_unread = Waiter::new(all.acquire(1));
    drop(waiting);
    assert_eq!(waiters(&[&*busy]), [1]);
    drop(held);
    assert_eq!((told_unread.woken(), busy.snapshot().in_use()), (1, 0));
    busy.try_acquire(1).unwrap_err();
    drop(told_unread);
    assert_eq!(waiters(&[&*busy]), [0]);
    drop(busy.try_acquire(1).unwrap());
    for rate in &rates {
        assert_eq!(rate.snapshot().available(), 10, "{:?}", rate.name());
    }
}

#[test]
fn closing_answers_those_who_wait_for_all() {
    let time = ManualClock::new();
    let busy = slots("busy", &time);
    let all = All::new([busy.clone() as Arc<dyn Limiter>]);
    let _held = busy.try_acquire(1).unwrap();
    let mut waiters = [(); 3].map(|()| Waiter::new(all.acquire(1)));
    all.close();
    for waiter in &mut waiters {
        assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::Closed))));
        assert_eq!(waiter.woken(), 1);
    }
    assert_eq!(all.snapshot().denied_total(), 3);
}

#[test]
fn a_timeout_runs_from_the_first_poll_whatever_it_waits_for() {
    let time = ManualClock::new();
    let busy = slots("busy", &time);
    let all = All::new([busy.clone() as Arc<dyn Limiter>]);
    let _held = busy.try_acquire(1).unwrap();
    let future = all.acquire(Demand::ONE.within(SECOND));
    time.advance(SECOND);
    let mut waiter = Waiter::new(future);
    time.advance(SECOND);
    assert!(waiter.look().is_pending());
    time.advance(TICK);
    assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::TimedOut))));
}

#[test]
fn a_timeout_that_passes_between_two_queues_is_told() {
    let time = ManualClock::new();
    let (a, b) = (slots("a", &time), slots("b", &time));
    let all = All::new([a.clone() as Arc<dyn Limiter>, b.clone()]);
    let held_a = a.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(all.acquire(Demand::ONE.within(SECOND)));
    let _held_b = b.try_acquire(1).unwrap();
    time.advance(SECOND);
    drop(held_a);
    // Granted by the one just in time, and looked at too late for the other.
    time.advance(TICK);
    assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::TimedOut))));
}

#[test]
fn acquire_is_refused_in_the_same_words_as_try_acquire() {
    let time = ManualClock::new();
    let empty = |millis| {
        let quota = Quota::new(1, Duration::from_millis(millis));
        let rule = TokenBucket::greedy(quota).initial(0);
        Arc::new(Gate::builder(rule).clock(time.clock()).build()) as Arc<dyn Limiter>
    };
    let all = All::new([empty(10), empty(30)]).with_name("both");
    let tried = all.try_acquire(1).unwrap_err();
    let Poll::Ready(Err(asked)) = poll(&mut all.acquire(1)) else {
        panic!("nobody can wait");
    };
    assert_eq!(asked, tried);
    let reserved = slots("closed", &time);
    reserved.close();
    let all = All::new([reserved as Arc<dyn Limiter>]).with_name("one");
    assert_eq!(
        all.reserve(Demand::ONE).unwrap_err(),
        all.try_acquire(1).unwrap_err()
    );
}

#[test]
fn what_is_too_large_for_one_is_never_queued() {
    let time = ManualClock::new();
    let rate = gate("rate", TokenBucket::greedy(TEN).initial(0), &time);
    let small = slots("small", &time);
    let all = All::new([rate.clone() as Arc<dyn Limiter>, small]);
    let Poll::Ready(Err(denied)) = poll(&mut all.acquire(2)) else {
        panic!("it can never be granted");
    };
    assert_eq!(denied.reason(), Reason::TooLarge);
}

#[test]
fn one_who_waits_is_not_counted_as_refused() {
    let time = ManualClock::new();
    let busy = slots("busy", &time);
    let all = All::new([busy.clone() as Arc<dyn Limiter>]);
    let held = busy.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(all.acquire(1));
    drop(held);
    assert!(waiter.look().is_ready());
    assert_eq!(busy.snapshot().denied_total(), 0);
}
