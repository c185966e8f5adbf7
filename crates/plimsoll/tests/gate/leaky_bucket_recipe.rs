//! nginx's `limit_req` is a leaky bucket: `rate`, `burst`, `delay`, `nodelay`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{LimitReq, ManualClock, Quota};

/// How many of `crowd` at once are served after each 100 ms of a limit of 10 a second, and how many are refused.
fn served(limit: LimitReq, crowd: usize) -> (Vec<usize>, usize) {
    let time = ManualClock::new();
    let gate = limit.gate().clock(time.clock()).build();
    let mut waiting: Vec<_> = (0..crowd).map(|_| Box::pin(gate.acquire(1))).collect();
    let mut refused = 0;
    let mut steps = Vec::new();
    for _ in 0..8 {
        let mut now = 0;
        waiting.retain_mut(|acquire| {
            match pin!(acquire).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => return true,
                Poll::Ready(Ok(_)) => now += 1,
                Poll::Ready(Err(_)) => refused += 1,
            }
            false
        });
        steps.push(now);
        time.advance(Duration::from_millis(100));
    }
    (steps, refused)
}

#[test]
fn without_burst_the_excess_is_refused() {
    let (steps, refused) = served(LimitReq::per_second(10), 8);
    assert_eq!((steps, refused), (vec![1, 0, 0, 0, 0, 0, 0, 0], 7));
}

#[test]
fn with_burst_the_excess_waits_its_turn() {
    let (steps, refused) = served(LimitReq::per_second(10).burst(5), 8);
    assert_eq!((steps, refused), (vec![1, 1, 1, 1, 1, 1, 0, 0], 2));
}

#[test]
fn with_nodelay_the_burst_passes_at_once() {
    let (steps, refused) = served(LimitReq::per_second(10).burst(5).nodelay(), 8);
    assert_eq!((steps, refused), (vec![6, 0, 0, 0, 0, 0, 0, 0], 2));
}

#[test]
fn with_delay_part_of_the_burst_passes_at_once_and_the_rest_waits() {
    let (steps, refused) = served(LimitReq::per_second(10).burst(5).delay(2), 8);
    assert_eq!((steps, refused), (vec![3, 1, 1, 1, 0, 0, 0, 0], 2));
}

#[test]
fn a_rate_by_the_minute_is_spread_evenly_and_delay_beyond_the_burst_is_nodelay() {
    let minute = Quota::new(600, Duration::from_secs(60));
    let (steps, refused) = served(LimitReq::new(minute).burst(2), 8);
    assert_eq!((steps, refused), (vec![1, 1, 1, 0, 0, 0, 0, 0], 5));
    let all = LimitReq::per_second(10).burst(5).delay(9);
    assert_eq!(served(all, 8), (vec![6, 0, 0, 0, 0, 0, 0, 0], 2));
    let deepest = LimitReq::per_second(1).burst(u64::MAX).nodelay();
    assert_eq!(deepest.gate().build().snapshot().limit(), u64::MAX);
}
