//! Several weights at once: costs of one limiter add up, one deadline applies on every clock, and a grant that is undone is
//! not counted.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::poll::poll;
use plimsoll::{
    All, Clock, Concurrency, Gate, Limiter, ManualClock, Moment, Queue, Quota, Reason, TokenBucket,
};
use plimsoll_kinds::{Demands, Provider, Weight};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_nanos(1);

fn queued(rule: Concurrency, time: &ManualClock) -> Gate<Concurrency> {
    let builder = Gate::builder(rule).queue(Queue::fifo(1000));
    builder.clock(time.clock()).build()
}

#[test]
fn two_weights_on_one_limiter_add_up() {
    let time = ManualClock::new();
    let slots = Gate::builder(Concurrency::new(4)).queue(Queue::fifo(10));
    let slots = slots.clock(time.clock()).build();
    let provider = Provider::builder()
        .limit(Weight::REQUEST_COUNT, slots.clone())
        .limit(Weight::REQUEST_ITEMS, slots.clone())
        .build()
        .unwrap();
    let costs = |count, items| {
        [
            (Weight::REQUEST_COUNT, count),
            (Weight::REQUEST_ITEMS, items),
        ]
    };
    let permits = provider.try_acquire(&costs(1, 2)).unwrap();
    assert_eq!(slots.snapshot().in_use(), 3);
    let too_large = provider.acquire_blocking(&costs(2, 3)).unwrap_err();
    assert_eq!(too_large.reason(), Reason::TooLarge);
    let costs = costs(1, 1);
    let mut waiting = std::pin::pin!(provider.acquire(Demands::of(&costs)));
    assert!(poll(&mut waiting).is_pending());
    drop(permits);
    let Poll::Ready(Ok(permits)) = poll(&mut waiting) else {
        panic!("four are free");
    };
    assert_eq!(slots.snapshot().in_use(), 2);
    drop(permits);
    assert_eq!(slots.snapshot().in_use(), 0);
}

#[test]
fn a_refused_reservation_takes_nothing_on_a_real_clock() {
    let quota = Quota::new(5, Duration::from_secs(1000));
    let first = Gate::builder(TokenBucket::greedy(quota))
        .clock(Clock::precise())
        .build();
    let full = Gate::builder(Concurrency::new(1))
        .clock(Clock::precise())
        .build();
    let _held = full.try_acquire(1).unwrap();
    let provider = Provider::builder()
        .limit(Weight::REQUEST_COUNT, first.clone())
        .limit(Weight::REQUEST_ITEMS, full.clone())
        .build()
        .unwrap();
    for _ in 0..5 {
        provider
            .reserve(&[(Weight::REQUEST_COUNT, 1), (Weight::REQUEST_ITEMS, 1)])
            .unwrap_err();
    }
    assert_eq!(first.snapshot().available(), 5);
}

#[test]
fn a_providers_deadline_holds_on_the_clock_of_each_limiter() {
    let (one, other) = (
        ManualClock::new(),
        ManualClock::starting_at(Moment::from_nanos(1 << 50)),
    );
    let free = queued(Concurrency::new(1), &one);
    let busy = queued(Concurrency::new(1), &other);
    let provider = Provider::builder()
        .limit(Weight::REQUEST_COUNT, free.clone())
        .limit(Weight::REQUEST_ITEMS, busy.clone())
        .build()
        .unwrap();
    let costs = [(Weight::REQUEST_COUNT, 1), (Weight::REQUEST_ITEMS, 1)];
    let until = one.now().plus(SECOND);
    for demands in [
        Demands::of(&costs).within(SECOND),
        Demands::of(&costs).until(until),
    ] {
        let held = busy.try_acquire(1).unwrap();
        let mut waiting = std::pin::pin!(provider.acquire(demands));
        assert!(poll(&mut waiting).is_pending());
        drop(held);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));
        let _held = busy.try_acquire(1).unwrap();
        let mut waiting = std::pin::pin!(provider.acquire(demands.within(SECOND)));
        assert!(poll(&mut waiting).is_pending());
        other.advance(SECOND + TICK);
        let Poll::Ready(Err(denied)) = poll(&mut waiting) else {
            panic!("its time is over");
        };
        assert_eq!(denied.reason(), Reason::TimedOut);
    }
}

/// A provider asks the members of an `All` in its place, and the `All` counts grants, so it must hear of grants that are
/// undone.
#[test]
fn an_undone_grant_of_a_provider_is_not_counted_by_an_all_in_it() {
    let gates = [1, 2].map(|_| Arc::new(Gate::new(Concurrency::new(2))) as Arc<dyn Limiter>);
    let all = All::new(gates);
    let provider = Provider::builder().limit(Weight::REQUEST_COUNT, all.clone());
    let provider = provider.build().unwrap();
    let costs = [(Weight::REQUEST_COUNT, 1)];
    let held = provider.try_acquire(&costs).unwrap();
    provider.try_acquire(&costs).unwrap().undo();
    assert_eq!(all.snapshot().granted_total(), 1);
    drop(held);
    assert_eq!(all.snapshot().granted_total(), 1);
}
