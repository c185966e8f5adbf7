//! Shares of one limit: never more than the limit, never less than a share for long.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use plimsoll::{
    Concurrency, Demand, Gate, Limiter, ManualClock, Outcome, Partition, Partitions, Permit, Queue,
    Reason,
};
use proptest::prelude::*;

type Shares = Partitions<Concurrency>;

fn shares(time: &ManualClock, limit: u64, weights: &[(&str, u32)]) -> Shares {
    let gate = Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(100))
        .clock(time.clock())
        .build();
    Partitions::try_new(gate, weights.iter().copied()).expect("good weights")
}

fn part(shares: &Shares, name: &str) -> Partition<Concurrency> {
    shares.get(name).expect("a partition of that name")
}

fn take(part: &Partition<Concurrency>, cost: u64) -> Option<Permit<'static>> {
    part.try_acquire(cost.into()).ok().map(Permit::into_owned)
}

#[test]
fn an_idle_share_is_lent_and_comes_back() {
    let time = ManualClock::new();
    let shares = shares(&time, 10, &[("live", 7), ("batch", 3)]);
    let (live, batch) = (part(&shares, "live"), part(&shares, "batch"));
    let mut borrowed: Vec<_> = (0..10).map(|_| take(&batch, 1).unwrap()).collect();
    assert!(take(&batch, 1).is_none(), "the limit itself holds");

    // Live work comes back: it is told to wait, and whatever is given back from now on is kept for it.
    assert!(take(&live, 1).is_none());
    borrowed.truncate(9);
    assert!(take(&batch, 1).is_none());
    let mut served = vec![take(&live, 1).unwrap()];
    while served.len() < 7 {
        assert!(take(&live, 1).is_none());
        borrowed.pop();
        assert!(take(&batch, 1).is_none(), "borrowers come last");
        served.push(take(&live, 1).unwrap());
    }
    assert_eq!(borrowed.len(), 3);
    assert_eq!(shares.gate().snapshot().in_use(), 10);
}

#[test]
fn a_share_is_kept_for_a_while_and_then_no_longer() {
    let time = ManualClock::new();
    let shares = shares(&time, 10, &[("live", 7), ("batch", 3)]);
    let (live, batch) = (part(&shares, "live"), part(&shares, "batch"));
    drop(take(&live, 7).unwrap());
    assert!(take(&batch, 4).is_none(), "live work was there just now");
    assert!(take(&batch, 3).is_some());
    time.advance(Duration::from_millis(999));
    assert!(take(&batch, 4).is_none());
    time.advance(Duration::from_millis(1001));
    assert!(take(&batch, 10).is_some(), "it has gone");
}

#[test]
fn what_was_asked_for_is_kept_and_no_more() {
    let time = ManualClock::new();
    let shares = shares(&time, 10, &[("live", 7), ("batch", 3)]);
    let (live, batch) = (part(&shares, "live"), part(&shares, "batch"));
    drop(take(&live, 2).unwrap());
    assert!(take(&batch, 9).is_none());
    assert!(
        take(&batch, 8).is_some(),
        "live work never asked for more than 2"
    );
}

#[test]
fn shares_follow_the_limit() {
    let time = ManualClock::new();
    let shares = shares(&time, 10, &[("a", 1), ("b", 1), ("c", 2)]);
    let limits = || ["a", "b", "c"].map(|name| part(&shares, name).snapshot().limit());
    assert_eq!(limits(), [2, 2, 5]);
    shares.gate().resize(100).unwrap();
    assert_eq!(limits(), [25, 25, 50]);
    shares.gate().resize(2).unwrap();
    assert_eq!(limits(), [1, 1, 1], "nobody has a right to nothing");
}

#[test]
fn a_partition_waits_for_its_share_in_the_queue_of_the_limit() {
    let time = ManualClock::new();
    let shares = shares(&time, 4, &[("live", 1), ("batch", 1)]);
    let (live, batch) = (part(&shares, "live"), part(&shares, "batch"));
    let borrowed = take(&batch, 4).unwrap();
    let mut cx = Context::from_waker(Waker::noop());

    let mut waiting = pin!(live.acquire(Demand::of(2)));
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    assert_eq!(live.snapshot().in_use(), 2, "a place in the queue counts");
    // A partition that may have no more does not queue for it.
    let refused = pin!(batch.acquire(Demand::of(1))).poll(&mut cx);
    assert!(matches!(refused, Poll::Ready(Err(denied)) if denied.reason() == Reason::Exhausted));
    drop(borrowed);
    assert!(matches!(waiting.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));

    // Whoever gives up waiting gives up its claim.
    let all = take(&live, 2).unwrap();
    let mut given_up = Box::pin(live.acquire(Demand::of(1)));
    let _ = given_up.as_mut().poll(&mut cx);
    drop((given_up, all));
    assert_eq!(live.snapshot().in_use(), 0);
    assert_eq!(shares.gate().snapshot().in_use(), 0);
}

#[test]
fn a_refusal_names_the_partition_and_says_what_is_left() {
    let time = ManualClock::new();
    let shares = shares(&time, 10, &[("live", 7), ("batch", 3)]);
    let (live, batch) = (part(&shares, "live"), part(&shares, "batch"));
    let _busy = take(&live, 7);
    let _some = take(&batch, 1);
    let denied = batch.try_acquire(Demand::of(3)).unwrap_err();
    assert_eq!(denied.limiter(), Some("batch"));
    assert_eq!((denied.limit(), denied.remaining()), (10, 2));
    assert_eq!(batch.estimate(Demand::of(3)).unwrap_err(), denied);
    assert!(batch.estimate(Demand::of(2)).is_ok());
    let too_large = batch.try_acquire(Demand::of(11)).unwrap_err();
    assert_eq!(too_large.reason(), Reason::TooLarge);
}

#[test]
fn bad_partitions_are_refused_with_a_reason() {
    let gate = || Gate::new(Concurrency::new(3));
    let message = |weights: &[(&str, u32)]| {
        let shares = Partitions::try_new(gate(), weights.iter().copied());
        shares.unwrap_err().to_string()
    };
    assert_eq!(
        message(&[("a", 1), ("b", 0)]),
        "`weight` is 0: expected at least 1"
    );
    assert_eq!(
        message(&[("a", 1), ("a", 2)]),
        "`name` is a: expected each partition to have its own"
    );
    assert_eq!(
        message(&[]),
        "`partitions` is empty: expected at least 1 partition"
    );
    assert!(
        Partitions::try_new(gate(), [("a", 1)])
            .unwrap()
            .get("b")
            .is_none()
    );
}

#[test]
fn threads_leave_nothing_behind() {
    let shares = Partitions::try_new(Gate::new(Concurrency::new(8)), [("a", 3), ("b", 1)]).unwrap();
    let shares = Arc::new(shares);
    thread::scope(|scope| {
        for name in ["a", "b", "a", "b"] {
            let shares = Arc::clone(&shares);
            scope.spawn(move || {
                let part = shares.get(name).unwrap();
                for round in 0..20_000_u64 {
                    if let Ok(permit) = part.try_acquire(Demand::of(1 + round % 4)) {
                        assert!(shares.gate().snapshot().in_use() <= 8);
                        permit.finish(Outcome::Success);
                    }
                }
            });
        }
    });
    assert_eq!(shares.gate().snapshot().in_use(), 0);
    for name in ["a", "b"] {
        assert_eq!(shares.get(name).unwrap().snapshot().in_use(), 0);
    }
}

proptest! {
    /// Whatever comes and goes: the limit holds; a partition within its share is refused only for want of room in the
    /// limit; and while all keep asking for their shares, nobody is lent anything new.
    #[test]
    fn the_limit_holds_and_so_do_shares(
        ops in prop::collection::vec((0_usize..3, 1_u64..4, prop::bool::weighted(0.6), 0_u64..300), 1..200),
    ) {
        let time = ManualClock::new();
        let names = ["a", "b", "c"];
        let shares = shares(&time, 12, &[("a", 1), ("b", 2), ("c", 3)]);
        let share = [2_u64, 4, 6];
        let parts = names.map(|name| part(&shares, name));
        let mut held: [Vec<Permit<'static>>; 3] = Default::default();
        for (who, cost, takes, pause) in ops {
            time.advance(Duration::from_millis(pause));
            let sum = |held: &[Permit<'_>]| held.iter().map(Permit::cost).sum::<u64>();
            if takes {
                let total: u64 = held.iter().map(|held| sum(held)).sum();
                let mine = sum(&held[who]);
                match take(&parts[who], cost) {
                    Some(permit) => held[who].push(permit),
                    None => prop_assert!(mine + cost > share[who] || total + cost > 12),
                }
            } else {
                held[who].pop();
            }
            let total: u64 = held.iter().map(|held| sum(held)).sum();
            prop_assert!(total <= 12);
            prop_assert_eq!(shares.gate().snapshot().in_use(), total);
            for (part, held) in parts.iter().zip(&held) {
                prop_assert_eq!(part.snapshot().in_use(), sum(held));
            }
        }
    }
}

/// A demand above the limit was passed on to the gate without being set aside; if the limit had grown meanwhile it was
/// granted, and gave back what others of its partition held.
#[test]
fn what_is_granted_while_the_limit_grows_is_counted() {
    let gate = Gate::new(Concurrency::new(5));
    let shares = Partitions::try_new(gate.clone(), [("one", 1)]).unwrap();
    let one = shares.get("one").unwrap();
    let _kept = one.try_acquire(Demand::of(3)).unwrap();
    let done = AtomicBool::new(false);
    let mut least = u64::MAX;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                gate.resize(20).unwrap();
                gate.resize(5).unwrap();
            }
        });
        for _ in 0..30_000 {
            drop(one.try_acquire(Demand::of(6)));
            least = least.min(one.snapshot().in_use());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(least, 3);
}
