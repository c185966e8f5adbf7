//! Limited streams: what waits, what is handed out, and how they end.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use crate::queued::queued;
use futures_util::stream::{self, FusedStream};
use futures_util::{Stream, StreamExt};
use plimsoll::{Concurrency, Demand, Gate, ManualClock, Queue, Reason, TokenBucket};
use plimsoll_kinds::Resource;
use plimsoll_tokio::LimitedStream;
use proptest::prelude::*;

#[test]
fn items_come_at_the_rate() {
    let time = ManualClock::new();
    let mut items = stream::iter(0..5).limited(queued(TokenBucket::per_second(2), &time));
    let mut seen = Vec::new();
    for _ in 0..4 {
        while let Poll::Ready(Some(item)) = poll(&mut items.next()) {
            seen.push((time.now().as_nanos() / 1_000_000, item.unwrap()));
        }
        time.advance(Duration::from_millis(500));
    }
    assert_eq!(seen, [(0, 0), (0, 1), (500, 2), (1000, 3), (1500, 4)]);
    assert!(items.is_terminated());
    assert!(matches!(poll(&mut items.next()), Poll::Ready(None)));
}

#[test]
fn one_item_waits_and_no_more_are_polled() {
    let time = ManualClock::new();
    let memory = queued(Concurrency::new(100), &time);
    let polled = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = || polled.load(std::sync::atomic::Ordering::Relaxed);
    let source = stream::iter([60, 60, 30]).inspect(|_| {
        polled.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let mut items = source.limited_with_permit_by(memory.clone(), |size| *size);
    assert_eq!(items.size_hint(), (1, Some(3)));
    let Poll::Ready(Some(Ok(first))) = poll(&mut items.next()) else {
        panic!("there is room")
    };
    assert_eq!((*first, seen()), (60, 1));
    for _ in 0..3 {
        assert!(poll(&mut items.next()).is_pending());
    }
    assert_eq!((seen(), items.size_hint()), (2, (1, Some(2))));
    assert_eq!(memory.snapshot().waiters(), 1);
    drop(first);
    let Poll::Ready(Some(Ok(second))) = poll(&mut items.next()) else {
        panic!("there is room again")
    };
    let Poll::Ready(Some(Ok(third))) = poll(&mut items.next()) else {
        panic!("both fit")
    };
    assert_eq!(memory.snapshot().in_use(), 90);
    assert!(matches!(poll(&mut items.next()), Poll::Ready(None)));
    assert_eq!(items.size_hint(), (0, Some(0)));
    drop((second, third));
    assert_eq!(memory.snapshot().in_use(), 0);
}

#[test]
fn a_stream_in_which_nothing_happens_takes_nothing() {
    let slots = Gate::new(Concurrency::new(1));
    let mut silent = stream::pending::<u64>().limited_with_permit(slots.clone());
    assert!(poll(&mut silent.next()).is_pending());
    assert_eq!(slots.snapshot().in_use(), 0);
    assert!(!silent.is_terminated());
}

#[test]
fn a_refused_item_comes_back_and_the_stream_goes_on() {
    let limiter = Resource::shared(Arc::new(Gate::new(Concurrency::new(10))));
    let mut items = stream::iter([4, 11, 6, 1]).limited_with_permit_by(limiter, |size| *size);
    let Poll::Ready(Some(Ok(first))) = poll(&mut items.next()) else {
        panic!("it fits")
    };
    let Poll::Ready(Some(Err(large))) = poll(&mut items.next()) else {
        panic!("it can never fit")
    };
    assert_eq!((large.item, large.denied.reason()), (11, Reason::TooLarge));
    assert_eq!(large.to_string(), "the cost is above the limit");
    let Poll::Ready(Some(Ok(_third))) = poll(&mut items.next()) else {
        panic!("it fits")
    };
    let Poll::Ready(Some(Err(full))) = poll(&mut items.next()) else {
        panic!("nobody may wait")
    };
    assert_eq!((full.item, full.denied.reason()), (1, Reason::Exhausted));
    drop(first);
    assert!(matches!(poll(&mut items.next()), Poll::Ready(None)));
}

#[test]
fn who_waits_too_long_is_refused() {
    let time = ManualClock::new();
    let slots = queued(Concurrency::new(1), &time);
    let _held = slots.try_acquire(1).unwrap();
    let patience = |_: &u64| Demand::ONE.within(Duration::from_secs(1));
    let mut items = stream::iter([1]).limited_with_permit_by(slots.clone(), patience);
    assert!(poll(&mut items.next()).is_pending());
    time.advance(Duration::from_millis(1001));
    let Poll::Ready(Some(Err(late))) = poll(&mut items.next()) else {
        panic!("its time is over")
    };
    assert_eq!(late.denied.reason(), Reason::TimedOut);
}

#[test]
fn a_closed_limiter_ends_the_stream() {
    let time = ManualClock::new();
    let rate = queued(TokenBucket::per_second(1), &time);
    let mut items = stream::iter(1..9).limited(rate.clone());
    assert!(matches!(poll(&mut items.next()), Poll::Ready(Some(Ok(1)))));
    assert!(poll(&mut items.next()).is_pending());
    rate.close();
    let Poll::Ready(Some(Err(closed))) = poll(&mut items.next()) else {
        panic!("it was closed")
    };
    assert_eq!((closed.item, closed.denied.reason()), (2, Reason::Closed));
    assert!(items.is_terminated());
    assert!(matches!(poll(&mut items.next()), Poll::Ready(None)));
}

#[tokio::test]
async fn back_pressure_reaches_the_sender() {
    let time = ManualClock::new();
    let (sender, receiver) = plimsoll_tokio::channel(queued(Concurrency::new(1), &time));
    let work = queued(Concurrency::new(2), &time);
    let mut items = receiver.limited_with_permit(work.clone());
    let sends = tokio::spawn(async move {
        for number in 0..100 {
            sender.send(number).await.unwrap();
        }
    });
    let mut running = std::collections::VecDeque::new();
    let mut next = 0;
    while let Some(item) = items.next().await {
        let item = item.unwrap();
        assert_eq!(*item, next);
        next += 1;
        running.push_back(item);
        if running.len() == 2 {
            running.pop_front();
        }
        assert!(work.snapshot().in_use() <= 2);
    }
    sends.await.unwrap();
    assert_eq!(next, 100);
}

proptest! {
    #[test]
    fn a_stream_dropped_at_any_point_leaves_nothing_behind(
        costs in prop::collection::vec(1..8_u64, 0..20),
        polls in 0..40_usize,
        keep in 0..4_usize,
    ) {
        let time = ManualClock::new();
        let slots = Gate::builder(Concurrency::new(6)).queue(Queue::fifo(4)).clock(time.clock());
        let slots = slots.build();
        let mut items = stream::iter(costs.clone()).limited_with_permit_by(slots.clone(), |cost| *cost);
        let (mut held, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..polls {
            match poll(&mut items.next()) {
                Poll::Ready(Some(Ok(item))) => {
                    seen.push(*item);
                    held.push(item);
                }
                Poll::Ready(Some(Err(refused))) => seen.push(refused.item),
                Poll::Ready(None) => break,
                Poll::Pending => held.truncate(keep.min(held.len().saturating_sub(1))),
            }
        }
        prop_assert_eq!(&costs[..seen.len()], &seen[..]);
        drop((items, held));
        prop_assert_eq!((slots.snapshot().in_use(), slots.snapshot().waiters()), (0, 0));
    }
}
