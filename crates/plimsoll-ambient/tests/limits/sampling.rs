//! Who measures when: the future, polled and woken by hand.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::fed::Fed;
use plimsoll::ManualClock;
use plimsoll_ambient::{Amount, MemoryLimiter, Run, Sampler};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn limiter(sampler: &Sampler, fed: &Fed, interval: u64) -> MemoryLimiter {
    MemoryLimiter::builder(Amount::Bytes(1000))
        .source(fed.clone())
        .check_interval(millis(interval))
        .build(sampler)
        .unwrap()
}

#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task that polls when it was woken.
struct Task {
    run: Run,
    bell: Arc<Bell>,
    wakes: u32,
}

impl Task {
    fn new(sampler: &Sampler) -> Self {
        let mut task = Self {
            run: sampler.run(),
            bell: Arc::default(),
            wakes: 0,
        };
        task.poll();
        task
    }

    fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.bell));
        let poll = Pin::new(&mut self.run).poll(&mut Context::from_waker(&waker));
        assert!(matches!(poll, Poll::Pending));
    }

    fn poll_if_woken(&mut self) {
        let rings = self.bell.0.swap(0, Ordering::SeqCst);
        if rings > 0 {
            self.wakes += 1;
            self.poll();
        }
    }

    /// Lets so much time pass, in small steps.
    fn pass(&mut self, time: &ManualClock, span: u64) {
        for _ in 0..span / 10 {
            time.advance(millis(10));
            self.poll_if_woken();
        }
    }
}

#[test]
fn it_samples_once_in_an_interval() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let fed = Fed::new(0, 0);
    let limiter = limiter(&sampler, &fed, 1000);
    let mut task = Task::new(&sampler);
    let before = fed.reads();
    task.pass(&time, 990);
    assert_eq!(fed.reads(), before);
    fed.set(900);
    task.pass(&time, 10);
    assert_eq!(fed.reads(), before + 1);
    assert!(limiter.check_saturation().is_err());
    task.pass(&time, 10_000);
    assert_eq!(fed.reads(), before + 11);
}

#[test]
fn it_wakes_at_the_shortest_interval_and_measures_who_is_due_before_the_next_time() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let (often, rarely) = (Fed::new(0, 0), Fed::new(0, 0));
    let _often = limiter(&sampler, &often, 300);
    let _rarely = limiter(&sampler, &rarely, 1000);
    let mut task = Task::new(&sampler);
    let before = (often.reads(), rarely.reads());
    task.pass(&time, 9000);
    assert_eq!(task.wakes, 30);
    // Every third time: a fourth would be too late.
    assert_eq!(
        (often.reads(), rarely.reads()),
        (before.0 + 30, before.1 + 10)
    );
}

#[test]
fn nobody_who_is_sampled_measures_for_himself() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let (often, rarely) = (Fed::new(0, 0), Fed::new(0, 0));
    let limiters = [
        limiter(&sampler, &often, 70),
        limiter(&sampler, &rarely, 1000),
    ];
    let mut task = Task::new(&sampler);
    for _ in 0..1000 {
        task.pass(&time, 10);
        for limiter in &limiters {
            assert!(limiter.check_saturation().is_ok());
        }
    }
    assert_eq!(often.reads(), 1 + 1000 / 7);
    assert_eq!(task.wakes, 1000 / 7);
}

#[test]
fn a_limiter_that_comes_later_is_sampled_too_at_its_own_pace() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let mut task = Task::new(&sampler);
    task.pass(&time, 1000);
    assert_eq!(task.wakes, 0); // nothing to do

    let (rarely, often) = (Fed::new(0, 0), Fed::new(0, 0));
    let first = limiter(&sampler, &rarely, 10_000);
    task.poll_if_woken();
    task.pass(&time, 1000);
    let second = limiter(&sampler, &often, 100);
    task.poll_if_woken();
    let before = often.reads();
    task.pass(&time, 1000);
    assert_eq!(often.reads(), before + 10);

    // With the last limiter there is nothing left to do.
    drop((first, second));
    task.pass(&time, 20_000);
    let wakes = task.wakes;
    task.pass(&time, 20_000);
    assert_eq!(task.wakes, wakes);
}

#[test]
fn two_who_drive_do_no_harm_and_one_may_go() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let fed = Fed::new(0, 0);
    let _limiter = limiter(&sampler, &fed, 100);
    let (mut one, mut other) = (Task::new(&sampler), Task::new(&sampler));
    for _ in 0..100 {
        time.advance(millis(10));
        one.poll_if_woken();
        other.poll_if_woken();
    }
    assert!((10..=22).contains(&fed.reads()), "{}", fed.reads());
    drop(one);
    let before = fed.reads();
    other.pass(&time, 1000);
    assert_eq!(fed.reads(), before + 10);
}

#[test]
fn a_sampler_keeps_no_limiter_alive() {
    let sampler = Sampler::new(ManualClock::new().clock());
    let fed = Fed::new(0, 0);
    drop(limiter(&sampler, &fed, 100));
    sampler.sample().unwrap();
    assert_eq!(fed.reads(), 1);
}
