//! A limit that does not depend on time asks for none: no clock is read to grant, and no thread is started.
//!
//! A process of its own, so that nobody else starts the thread.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{Concurrency, Demand, EventKind, Gate, Keyed, ManualClock, Moment, Queue};

/// The names of all threads, as far as the system tells.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .collect()
}

/// Reading the clock kept a thread ticking.
#[test]
fn a_program_of_concurrency_limits_starts_no_thread() {
    let gate = Gate::new(Concurrency::new(2));
    let queued = Gate::builder(Concurrency::new(2))
        .queue(Queue::fifo(100))
        .build();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    drop(gate.try_acquire(1));
                }
                for _ in 0..500 {
                    drop(queued.acquire_blocking(1).unwrap());
                    assert!(queued.check_saturation().is_ok() || queued.snapshot().in_use() > 0);
                }
            });
        }
    });
    let named: Vec<_> = threads()
        .into_iter()
        .filter(|name| name.starts_with("plimsoll"))
        .collect();
    assert!(named.is_empty(), "{named:?}");
}

#[test]
fn permits_of_known_keys_are_not_dated_and_unused_keys_are_forgotten() {
    let time = ManualClock::new();
    let keyed: Keyed<u64, _> = Keyed::builder(Concurrency::new(3))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .build();
    let second = |seconds| Moment::ORIGIN.plus(Duration::from_secs(seconds));
    time.advance_to(second(5));
    let first = keyed.try_acquire(&1, 1).unwrap();
    let held = keyed.try_acquire(&1, 1).unwrap();
    let acquired = keyed.acquire_blocking(&1, 1).unwrap();
    time.advance_to(second(7));
    // Nobody noted it then, so it is when somebody asks.
    assert_eq!(held.granted_at(), second(7));
    assert_eq!(acquired.granted_at(), second(7));
    assert!(keyed.try_acquire(&1, 1).is_err());
    drop((first, held, acquired));
    assert_eq!(keyed.snapshot().in_use(), 0);
    // Keys that nobody uses are forgotten by those who use others.
    for key in 0..100 {
        drop(keyed.try_acquire(&key, 1));
    }
    for _ in 0..20_000 {
        time.advance(Duration::from_millis(1));
        drop(keyed.try_acquire(&1, 1));
    }
    assert!(keyed.len() < 10, "{}", keyed.len());
}

#[test]
fn nobody_looks_at_the_clock_to_grant_what_does_not_depend_on_it() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(3))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .build();
    let second = |seconds| Moment::ORIGIN.plus(Duration::from_secs(seconds));
    time.advance_to(second(5));
    let held = gate.try_acquire(1).unwrap();
    let mut asked = pin!(gate.acquire(1));
    let answer = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let std::task::Poll::Ready(Ok(acquired)) = answer else {
        panic!("there is room");
    };
    time.advance_to(second(7));
    // Nobody noted it then, so it is when somebody asks.
    assert_eq!(held.granted_at(), second(7));
    assert_eq!(acquired.granted_at(), second(7));
    // With a timeout in the queue as well, as long as there is room.
    gate.set_queue(Some(Queue::fifo(10).timeout(Duration::from_secs(1))));
    let third = gate.try_acquire(1).unwrap();
    assert!(gate.try_acquire(Demand::ONE).is_err());
    drop((held, acquired, third));
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn work_that_began_before_anybody_listened_took_no_time_that_is_known() {
    let time = ManualClock::starting_at(Moment::from_nanos(1_000_000_000_000));
    let gate = Gate::builder(Concurrency::new(3))
        .clock(time.clock())
        .build();
    let before = gate.try_acquire(1).unwrap();
    let mut events = gate.subscribe(100);
    let after = gate.try_acquire(1).unwrap();
    time.advance(Duration::from_secs(2));
    drop((before, after));
    let took: Vec<_> = std::iter::from_fn(|| events.next())
        .filter_map(|event| match event.kind {
            EventKind::Processed { took, .. } => Some(took),
            _ => None,
        })
        .collect();
    assert_eq!(took, [Duration::ZERO, Duration::from_secs(2)]);
}

#[test]
fn what_had_to_wait_knows_when_it_was_granted() {
    let time = ManualClock::new();
    let gate = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(10))
        .clock(time.clock())
        .build();
    let held = gate.try_acquire(1).unwrap();
    let mut waiting = pin!(gate.acquire(1));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    time.advance(Duration::from_secs(3));
    drop(held);
    time.advance(Duration::from_secs(3));
    let std::task::Poll::Ready(Ok(permit)) = waiting.as_mut().poll(&mut cx) else {
        panic!("it is served");
    };
    assert_eq!(permit.granted_at(), Moment::from_nanos(3_000_000_000));
}
