//! A rule that is not of this crate gets everything that a rule of this crate has. That it keeps the laws of rules is
//! tested with all others.

use std::task::Poll;
use std::time::Duration;

use plimsoll::{Carry, Demand, Gate, Keyed, ManualClock, Queue, Quota, Reason, TokenBucket};
use proptest::prelude::*;

use crate::gcra::Gcra;
use crate::poll::poll;

const GAP: Duration = Duration::from_millis(10);
/// Five at once, a hundred a second.
const RULE: Gcra = Gcra {
    limit: 5,
    gap: 10_000_000,
};

#[test]
fn it_has_a_fast_path_refunds_and_exact_retry_times() {
    let time = ManualClock::new();
    let gate = Gate::builder(RULE).clock(time.clock()).name("own").build();
    let permit = gate.try_acquire(5).unwrap();
    let denied = gate.try_acquire(2).unwrap_err();
    assert_eq!(denied.reason(), Reason::Exhausted);
    assert_eq!(denied.retry_after(), Some(2 * GAP));
    permit.undo();
    assert_eq!(gate.snapshot().available(), 5);
    assert_eq!(gate.standing().window, Some(5 * GAP));
    gate.charge(3);
    gate.replace(Gcra { limit: 8, ..RULE }, Carry::Used);
    assert_eq!(gate.snapshot().available(), 5);
}

#[test]
fn it_has_a_queue_and_reservations() {
    let time = ManualClock::new();
    let gate = Gate::builder(RULE).clock(time.clock());
    let gate = gate.queue(Queue::fifo(10)).build();
    gate.try_acquire(5).unwrap().forget();
    let mut first = gate.acquire(2);
    assert!(poll(&mut first).is_pending());
    let reserved = gate.reserve(1).unwrap();
    assert_eq!(reserved.wait(), Some(3 * GAP), "behind the one who waits");
    let late = gate.reserve(Demand::of(1).within(3 * GAP)).unwrap_err();
    assert_eq!(late.retry_after(), Some(4 * GAP));
    time.advance(2 * GAP);
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(_))));
}

#[test]
fn it_has_keys() {
    let time = ManualClock::new();
    let keyed = Keyed::<u8, _>::builder(RULE).clock(time.clock()).build();
    for key in 0..100 {
        keyed.try_acquire(&key, 5).unwrap().forget();
        assert!(keyed.try_acquire(&key, 1).is_err());
    }
    time.advance(GAP);
    assert!(keyed.try_acquire(&7, 1).is_ok());
    time.advance(Duration::from_secs(60));
    assert_eq!(keyed.standing(&7).remaining, Some(5));
}

proptest! {
    /// It is the algorithm of a greedy bucket, so a gate with either gives the same answers.
    #[test]
    fn it_answers_as_a_greedy_bucket_of_the_same_rate(
        limit in 1..20_u64, gap in 1..1000_u64,
        steps in proptest::collection::vec((0..4_u8, 0..5000_u64, 1..20_u64), 1..50),
    ) {
        let time = ManualClock::new();
        let own = Gate::builder(Gcra { limit, gap }).clock(time.clock()).build();
        let bucket = TokenBucket::greedy(Quota::new(1, Duration::from_nanos(gap))).burst(limit);
        let bucket = Gate::builder(bucket).clock(time.clock()).build();
        for (what, nanos, cost) in steps {
            time.advance(Duration::from_nanos(nanos));
            let cost = cost.min(limit);
            match what {
                0 | 1 => {
                    let answers = (own.try_acquire(cost), bucket.try_acquire(cost));
                    match answers {
                        (Ok(_), Ok(_)) => {}
                        (Err(own), Err(bucket)) => prop_assert_eq!(own, bucket),
                        answers => prop_assert!(false, "{:?}", answers),
                    }
                }
                2 => {
                    if let (Ok(own), Ok(bucket)) = (own.try_acquire(cost), bucket.try_acquire(cost)) {
                        time.advance(Duration::from_nanos(nanos / 7));
                        own.undo();
                        bucket.undo();
                    }
                }
                _ => prop_assert_eq!(own.take_up_to(cost).cost(), bucket.take_up_to(cost).cost()),
            }
            prop_assert_eq!(own.snapshot().available(), bucket.snapshot().available());
        }
    }
}
