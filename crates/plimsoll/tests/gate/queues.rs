//! Who is woken, when, and how often; closing and shrinking. What is answered in which order
//! is compared with the naive limiters in `against_reference`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::poll::poll;
use crate::waiter::Waiter;
use plimsoll::{
    Concurrency, Demand, Gate, ManualClock, Moment, Permit, Priority, Queue, Quota, Reason,
    TokenBucket,
};

pub(crate) fn woken(waiters: &[Waiter<'_>]) -> Vec<u64> {
    waiters.iter().map(Waiter::woken).collect()
}

pub(crate) fn slots(limit: u64, queue: Queue, time: &ManualClock) -> Gate<Concurrency> {
    let rule = Concurrency::new(limit);
    Gate::builder(rule).queue(queue).clock(time.clock()).build()
}

pub(crate) fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_grant_wakes_the_one_it_is_for_and_nobody_else() {
    let time = ManualClock::new();
    //                       queue, who is woken by the first, second and third release
    let cases = [
        (Queue::fifo(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        (Queue::lifo(3), [[0, 0, 1], [0, 1, 1], [1, 1, 1]]),
    ];
    for (queue, expected) in cases {
        let gate = slots(3, queue, &time);
        let mut held: Vec<_> = (0..3).map(|_| gate.try_acquire(1).unwrap()).collect();
        let mut waiters: Vec<_> = (0..3).map(|_| Waiter::new(gate.acquire(1))).collect();
        assert_eq!(woken(&waiters), [0, 0, 0]);
        for expected in expected {
            drop(held.pop());
            assert_eq!(woken(&waiters), expected, "{queue:?}");
        }
        for waiter in &mut waiters {
            assert!(matches!(waiter.look(), Poll::Ready(Ok(_))));
        }
        assert_eq!(woken(&waiters), [1, 1, 1]);
    }
}

#[test]
fn time_wakes_each_waiter_once_and_in_turn() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(1))
        .queue(Queue::fifo(40))
        .clock(time.clock())
        .build();
    gate.try_acquire(1).unwrap().forget();
    let mut waiters: Vec<_> = (0..40).map(|_| Waiter::new(gate.acquire(1))).collect();
    for served in 0..=40 {
        let expected: Vec<_> = (0..40).map(|at| u64::from(at < served)).collect();
        assert_eq!(woken(&waiters), expected);
        time.advance(second(1));
    }
    for (waiter, seconds) in waiters.iter_mut().zip(1..) {
        let Poll::Ready(Ok(permit)) = waiter.look() else {
            panic!("it was woken");
        };
        assert_eq!(permit.granted_at(), Moment::ORIGIN.plus(second(seconds)));
    }
}

#[test]
fn the_last_waker_that_was_left_is_the_one_that_is_called() {
    let time = ManualClock::new();
    let gate = slots(1, Queue::fifo(1), &time);
    let held = gate.try_acquire(1).unwrap();
    let mut waiter = Waiter::new(gate.acquire(1));
    let former = std::mem::take(&mut waiter.bell);
    assert!(waiter.look().is_pending());
    drop(held);
    assert_eq!((former.rung(), waiter.woken()), (0, 1));
}

#[test]
fn one_who_leaves_wakes_only_those_who_can_run_without_it() {
    let time = ManualClock::new();
    let gate = slots(3, Queue::fifo(10), &time);
    let _held = gate.try_acquire(2).unwrap();
    let large = Waiter::new(gate.acquire(2));
    let small = [1, 1].map(|cost| Waiter::new(gate.acquire(cost)));
    drop(large);
    assert_eq!(woken(&small), [1, 0]);
    assert_eq!(gate.snapshot().cancelled_total(), 1);
}

#[test]
fn one_who_leaves_does_not_wake_itself() {
    let time = ManualClock::new();
    let gate = slots(1, Queue::fifo(1), &time);
    let _held = gate.try_acquire(1).unwrap();
    let waiter = Waiter::new(gate.acquire(1));
    let bell = Arc::clone(&waiter.bell);
    drop(waiter);
    assert_eq!(bell.rung(), 0);
}

#[test]
fn closing_answers_everybody_who_waits_once() {
    let time = ManualClock::new();
    for queue in [Queue::fifo(100), Queue::lifo(100)] {
        let gate = slots(1, queue, &time);
        let held = gate.try_acquire(1).unwrap();
        let mut waiters: Vec<_> = (0..100).map(|_| Waiter::new(gate.acquire(1))).collect();
        gate.close();
        assert_eq!(woken(&waiters), [1; 100]);
        for waiter in &mut waiters {
            assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::Closed))));
        }
        assert_eq!(gate.try_acquire(1).unwrap_err().reason(), Reason::Closed);
        assert_eq!(gate.reserve(1).unwrap_err().reason(), Reason::Closed);
        assert_eq!(gate.estimate(1).unwrap_err().reason(), Reason::Closed);
        assert_eq!(gate.take_up_to(1).cost(), 0);
        let snapshot = gate.snapshot();
        assert_eq!((snapshot.waiters(), snapshot.denied_total()), (0, 102));
        drop(held);
        assert_eq!(gate.snapshot().in_use(), 0);
    }
}

#[test]
fn a_limit_that_shrinks_below_a_waiter_refuses_it_and_serves_who_stands_behind() {
    let time = ManualClock::new();
    let gate = slots(5, Queue::fifo(20), &time);
    let held = gate.try_acquire(5).unwrap();
    let mut waiters = [1, 4, 2, 1].map(|cost| Waiter::new(gate.acquire(cost)));
    gate.resize(3).unwrap();
    drop(held);
    assert_eq!(woken(&waiters), [1, 1, 1, 0]);
    let answers = waiters.each_mut().map(Waiter::look);
    assert!(matches!(answers[0], Poll::Ready(Ok(_))));
    assert!(matches!(answers[1], Poll::Ready(Err(Reason::TooLarge))));
    assert!(matches!(answers[2], Poll::Ready(Ok(_))));
    assert!(matches!(answers[3], Poll::Pending));
    assert_eq!(gate.snapshot().in_use(), 3);
    drop(answers);
    assert!(matches!(waiters[3].look(), Poll::Ready(Ok(_))));
}

#[test]
fn a_new_bound_counts_for_newcomers_only() {
    let time = ManualClock::new();
    let gate = slots(1, Queue::fifo(2), &time);
    let _held = gate.try_acquire(1).unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Waiter::new(gate.acquire(1))).collect();
    let full = |gate: &Gate<Concurrency>| match poll(&mut gate.acquire(1)) {
        Poll::Ready(Err(denied)) => denied.reason() == Reason::QueueFull,
        _ => false,
    };
    assert!(full(&gate));
    gate.set_queue_bound(3);
    assert!(!full(&gate));
    gate.set_queue_bound(0);
    assert!(full(&gate));
    assert_eq!(woken(&waiting), [0, 0]);
    waiting.pop();
    assert!(full(&gate));
}

#[test]
fn a_higher_class_passes_and_the_lower_is_not_woken() {
    let time = ManualClock::new();
    let gate = slots(1, Queue::fifo(5), &time);
    let held = gate.try_acquire(1).unwrap();
    let classes = [Priority::NonCritical, Priority::Normal, Priority::Critical];
    let waiters = classes.map(|class| Waiter::new(gate.acquire(Demand::ONE.priority(class))));
    drop(held);
    assert_eq!(woken(&waiters), [0, 0, 1]);
}

/// Runs something when it is woken.
struct Then<F>(F);

impl<F: Fn() + Send + Sync> Wake for Then<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_newcomer_is_granted_what_is_left_when_a_crowd_before_it_is_served() {
    let time = ManualClock::new();
    let gate = |rule| {
        let builder = Gate::builder(rule).queue(Queue::fifo(100));
        builder.clock(time.clock()).build()
    };
    // Two limiters ring at the same instant; the one that rings first asks the other.
    let first = gate(TokenBucket::per_second(1).initial(0));
    let crowded = gate(TokenBucket::interval(Quota::per_second(100)).initial(0));
    let answer: Arc<std::sync::Mutex<Option<Result<(), Reason>>>> = Arc::default();
    let asks = Then({
        let (crowded, answer) = (crowded.clone(), Arc::clone(&answer));
        move || {
            let tried = crowded.try_acquire(1).map(Permit::forget);
            *answer.lock().unwrap() = Some(tried.map_err(|denied| denied.reason()));
        }
    });
    let waker = Waker::from(Arc::new(asks));
    let mut future = first.acquire(1);
    assert!(
        Pin::new(&mut future)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let _crowd: Vec<_> = (0..90).map(|_| Waiter::new(crowded.acquire(1))).collect();
    time.advance(second(1));
    assert_eq!(*answer.lock().unwrap(), Some(Ok(())));
}

#[test]
fn another_queue_serves_who_waits_in_its_order() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .build();
    let running = gate.try_acquire(1).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut first = Box::pin(gate.acquire(1));
    let mut second = Box::pin(gate.acquire(1));
    assert!(first.as_mut().poll(&mut cx).is_pending());
    assert!(second.as_mut().poll(&mut cx).is_pending());

    gate.set_queue(Some(Queue::lifo(1)));
    drop(running);
    assert!(
        first.as_mut().poll(&mut cx).is_pending(),
        "nobody was sent away"
    );
    let Poll::Ready(Ok(permit)) = second.as_mut().poll(&mut cx) else {
        panic!("the last comes first now");
    };

    gate.set_queue(None);
    let mut third = Box::pin(gate.acquire(1));
    assert!(matches!(third.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
    drop(permit);
    assert!(matches!(first.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
}
