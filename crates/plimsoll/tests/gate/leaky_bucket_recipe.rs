//! nginx's `limit_req` is a leaky bucket: `rate`, `burst`, `delay`, `nodelay`. Each of its forms is one of ours.
//!
//! | nginx | here |
//! |---|---|
//! | `rate=r` | `TokenBucket::per_second(r).burst(1)`, no queue |
//! | `rate=r burst=b` | the same with `Queue::fifo(b)`: the excess waits its turn |
//! | `rate=r burst=b nodelay` | `TokenBucket::per_second(r).burst(b + 1)`, no queue |
//! | `rate=r burst=b delay=d` | `TokenBucket::per_second(r).burst(d + 1)` and `Queue::fifo(b - d)` |

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use plimsoll::{Gate, ManualClock, Queue, TokenBucket};

/// How many of `crowd` at once are served after each 100 ms of a limit of 10 a second, and how many are refused.
fn served(bucket: TokenBucket, queue: Option<Queue>, crowd: usize) -> (Vec<usize>, usize) {
    let time = ManualClock::new();
    let builder = Gate::builder(bucket).clock(time.clock());
    let gate = match queue {
        Some(queue) => builder.queue(queue).build(),
        None => builder.build(),
    };
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
    let (steps, refused) = served(TokenBucket::per_second(10).burst(1), None, 8);
    assert_eq!((steps, refused), (vec![1, 0, 0, 0, 0, 0, 0, 0], 7));
}

#[test]
fn with_burst_the_excess_waits_its_turn() {
    let bucket = TokenBucket::per_second(10).burst(1);
    let (steps, refused) = served(bucket, Some(Queue::fifo(5)), 8);
    assert_eq!((steps, refused), (vec![1, 1, 1, 1, 1, 1, 0, 0], 2));
}

#[test]
fn with_nodelay_the_burst_passes_at_once() {
    let (steps, refused) = served(TokenBucket::per_second(10).burst(6), None, 8);
    assert_eq!((steps, refused), (vec![6, 0, 0, 0, 0, 0, 0, 0], 2));
}

#[test]
fn with_delay_part_of_the_burst_passes_at_once_and_the_rest_waits() {
    let bucket = TokenBucket::per_second(10).burst(3);
    let (steps, refused) = served(bucket, Some(Queue::fifo(3)), 8);
    assert_eq!((steps, refused), (vec![3, 1, 1, 1, 0, 0, 0, 0], 2));
}
