//! Demands that wait until there is memory, or processor time, again.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use plimsoll::{
    Acquire, All, Concurrency, Demand, Gate, Limiter, LimiterExt, ManualClock, Permit, Priority,
    Queue, Reason,
};
use plimsoll_ambient::{Amount, CpuLimiter, MemoryLimiter, Sampler};

use crate::fed::Fed;

const SECOND: Duration = Duration::from_secs(1);

/// One who waits, polled by hand.
struct Waiter<'a>(Acquire<'a>, Arc<Bell>);

#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<'a> Waiter<'a> {
    fn new(acquire: Acquire<'a>) -> Self {
        let mut waiter = Self(acquire, Arc::default());
        assert!(waiter.look().is_pending());
        waiter
    }

    fn look(&mut self) -> Poll<Result<Permit<'a>, Reason>> {
        let waker = Waker::from(Arc::clone(&self.1));
        let polled = Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker));
        polled.map_err(|denied| denied.reason())
    }

    fn woken(&self) -> u32 {
        self.1.0.load(Ordering::SeqCst)
    }
}

/// A limiter of 100 bytes, with a spike of 20, that is saturated.
fn full(time: &ManualClock, queue: Queue) -> (MemoryLimiter, Fed, Sampler) {
    let (sampler, fed) = (Sampler::new(time.clock()), Fed::new(90, 0));
    let memory = MemoryLimiter::builder(Amount::Bytes(100))
        .source(fed.clone())
        .name("memory")
        .queue(queue)
        .build(&sampler)
        .unwrap();
    (memory, fed, sampler)
}

#[test]
fn whoever_waits_for_memory_is_woken_by_the_sample_that_shows_some() {
    let time = ManualClock::new();
    let (memory, fed, sampler) = full(&time, Queue::fifo(10));
    let mut first = Waiter::new(memory.acquire(1.into()));
    let mut second = Waiter::new(memory.acquire_owned(9.into()));
    assert_eq!((memory.snapshot().waiters(), fed.reads()), (2, 1));
    // A sample that shows none wakes nobody, and neither does time: nobody polls.
    time.advance(SECOND);
    sampler.sample().unwrap();
    time.advance(SECOND);
    assert_eq!((first.woken(), second.woken(), fed.reads()), (0, 0, 2));
    fed.set(70);
    assert_eq!((first.woken(), fed.reads()), (0, 2), "not sampled yet");
    sampler.sample().unwrap();
    assert_eq!((first.woken(), second.woken()), (1, 1));
    assert!(matches!(first.look(), Poll::Ready(Ok(_))));
    assert!(matches!(second.look(), Poll::Ready(Ok(_))));
    assert!(memory.try_acquire(1.into()).is_ok());
    assert_eq!(memory.snapshot().waiters(), 0);
}

#[test]
fn whoever_drives_the_sampler_wakes_them() {
    let time = ManualClock::new();
    let (memory, fed, sampler) = full(&time, Queue::fifo(10));
    let mut run = Box::pin(sampler.run());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(run.as_mut().poll(&mut cx).is_pending());
    let waiter = Waiter::new(memory.acquire(1.into()));
    fed.set(10);
    time.advance(SECOND);
    assert_eq!(waiter.woken(), 0);
    assert!(run.as_mut().poll(&mut cx).is_pending());
    assert_eq!(waiter.woken(), 1);
}

#[test]
fn the_queue_is_bounded_and_its_times_hold() {
    let time = ManualClock::new();
    let (memory, fed, sampler) = full(&time, Queue::fifo(2).timeout(5 * SECOND));
    let mut patient = Waiter::new(memory.acquire(1.into()));
    let mut hasty = Waiter::new(memory.acquire(Demand::ONE.within(2 * SECOND)));
    let mut third = Waiter(memory.acquire(1.into()), Arc::default());
    assert!(matches!(third.look(), Poll::Ready(Err(Reason::QueueFull))));
    assert!(memory.try_acquire(1.into()).is_err(), "it never waits");
    time.advance(2 * SECOND + Duration::from_nanos(1));
    assert!(matches!(hasty.look(), Poll::Ready(Err(Reason::TimedOut))));
    // Whoever gives up makes room.
    let late = Waiter::new(memory.acquire(1.into()));
    drop(late);
    assert_eq!(memory.snapshot().waiters(), 1);
    time.advance(3 * SECOND);
    assert!(matches!(patient.look(), Poll::Ready(Err(Reason::TimedOut))));
    fed.set(0);
    sampler.sample().unwrap();
    assert!(memory.acquire_blocking(1).is_ok());
}

#[test]
fn a_deadline_between_two_samples_holds() {
    let time = ManualClock::new();
    let (memory, _, _sampler) = full(&time, Queue::fifo(2));
    let deadline = time.now().plus(SECOND / 2);
    let mut waiter = Waiter::new(memory.acquire(Demand::ONE.until(deadline)));
    time.advance(SECOND / 2);
    assert!(waiter.look().is_pending());
    time.advance(Duration::from_nanos(1));
    assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::TimedOut))));
}

#[test]
fn higher_classes_push_lower_ones_out_of_a_full_queue() {
    let time = ManualClock::new();
    let (memory, _, _sampler) = full(&time, Queue::fifo(1));
    let mut low = Waiter::new(memory.acquire(1.into()));
    let _high = Waiter::new(memory.acquire(Demand::ONE.priority(Priority::Critical)));
    assert!(matches!(low.look(), Poll::Ready(Err(Reason::Evicted))));
}

#[test]
fn closing_refuses_whoever_waits() {
    let time = ManualClock::new();
    let (memory, _, _sampler) = full(&time, Queue::fifo(1));
    let mut waiter = Waiter::new(memory.acquire(1.into()));
    memory.close();
    assert!(matches!(waiter.look(), Poll::Ready(Err(Reason::Closed))));
    let denied = memory.acquire_blocking(1).unwrap_err();
    assert_eq!(denied.reason(), Reason::Closed);
}

#[test]
fn while_nothing_is_known_they_wait_for_a_sample() {
    let time = ManualClock::new();
    let (memory, fed, sampler) = full(&time, Queue::fifo(5));
    fed.break_down(true);
    time.advance(3 * SECOND);
    let mut waiter = Waiter::new(memory.acquire(1.into()));
    assert!(sampler.sample().is_err());
    assert_eq!(waiter.woken(), 0);
    fed.break_down(false);
    fed.set(0);
    sampler.sample().unwrap();
    assert!(matches!(waiter.look(), Poll::Ready(Ok(_))));
}

#[test]
fn the_processor_is_waited_for_too() {
    let time = ManualClock::new();
    let (sampler, fed) = (Sampler::new(time.clock()), Fed::new(0, 1));
    let cpu = CpuLimiter::builder(50)
        .source(fed.clone())
        .smoothing(Duration::ZERO)
        .queue(Queue::lifo(5))
        .build(&sampler)
        .unwrap();
    fed.add(1_000_000_000);
    time.advance(SECOND);
    sampler.sample().unwrap();
    let mut waiter = Waiter::new(cpu.acquire(1.into()));
    time.advance(SECOND);
    sampler.sample().unwrap(); // an idle second
    assert_eq!(waiter.woken(), 1);
    assert!(matches!(waiter.look(), Poll::Ready(Ok(_))));
}

#[test]
fn together_with_others_it_is_waited_for_and_holds_nothing_meanwhile() {
    let time = ManualClock::new();
    let (memory, fed, sampler) = full(&time, Queue::fifo(5));
    let slots = Gate::builder(Concurrency::new(1))
        .queue(Queue::fifo(5))
        .clock(time.clock())
        .build();
    let both = All::new([
        Arc::new(slots.clone()) as Arc<dyn Limiter>,
        Arc::new(memory.clone()),
    ]);
    let mut waiter = Waiter::new(both.acquire(1));
    assert_eq!(slots.snapshot().in_use(), 0);
    fed.set(0);
    sampler.sample().unwrap();
    let Poll::Ready(Ok(permit)) = waiter.look() else {
        panic!("there is room for both");
    };
    assert_eq!(slots.snapshot().in_use(), 1);
    drop(permit);
    assert_eq!(slots.snapshot().in_use(), 0);
    assert_eq!(both.try_acquire(1).map(drop), Ok(()));
}
