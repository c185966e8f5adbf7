//! Nothing is allocated to limit a call, granted or refused.

#[path = "../../plimsoll/tests/counting/mod.rs"]
mod counting;
#[path = "../../plimsoll/tests/poll/mod.rs"]
mod poll;

use std::time::Duration;

use counting::allocations;
use plimsoll::{
    Clock, Concurrency, Denied, FixedWindow, Gate, ManualClock, Queue, Quota, Reason, Rule,
    SlidingWindow, TokenBucket,
};
use plimsoll_kinds::{Basic, Demands, LimitCall, Provider, Weight};
use poll::poll;

/// Plenty, so that everything is granted.
const PLENTY: Quota = Quota::per_second(1_000_000);

/// A provider with all well-known weights, of different kinds, beside a basic limiter.
fn provider(clock: &Clock) -> Provider {
    fn gate<R: Rule>(rule: R, clock: &Clock) -> Gate<R> {
        let builder = Gate::builder(rule).queue(Queue::fifo(10));
        builder.clock(clock.clone()).build()
    }
    let slots = Concurrency::new(PLENTY.units());
    Provider::builder()
        .basic(Basic::when("switch", || false))
        .limit(Weight::REQUEST_COUNT, gate(slots, clock))
        .limit(
            Weight::REQUEST_ITEMS,
            gate(TokenBucket::greedy(PLENTY), clock),
        )
        .limit(Weight::NETWORK_BYTES, gate(FixedWindow::new(PLENTY), clock))
        .limit(
            Weight::MEMORY_SIZE,
            gate(SlidingWindow::new(PLENTY, 4), clock),
        )
        .build()
        .expect("each weight once")
}

#[test]
fn limiting_a_call_allocates_nothing() {
    let time = ManualClock::new();
    for clock in [time.clock(), Clock::precise(), Clock::system()] {
        let provider = provider(&clock);
        let all = Weight::KNOWN.map(|weight| (weight, 3));
        let call = |costs: &[(Weight, u64)]| {
            let demands = Demands::of(costs).within(Duration::from_secs(1));
            let nothing = || Ok::<_, Denied>(());
            provider.limit_call(demands, nothing).expect("plenty");
            drop(provider.try_acquire(demands).expect("plenty"));
            drop(provider.acquire_blocking(demands).expect("plenty"));
            let work = std::future::ready(Ok::<_, Denied>(()));
            let limited = std::pin::pin!(provider.limit_call_async(demands, work));
            assert!(poll(&mut { limited }).is_ready());
            provider.check_saturation().expect("plenty");
        };
        let one = |costs: &[(Weight, u64)]| {
            for (weight, cost) in costs {
                let limiter = provider.limiters(*weight).next().expect("it has all");
                limiter
                    .limit_call(*cost, || Ok::<_, Denied>(()))
                    .expect("plenty");
            }
        };
        // What a thread needs once.
        call(&all);
        for costs in [&all[..], &all[..1], &[]] {
            let count = allocations(|| (0..20).for_each(|_| call(costs)));
            assert_eq!(count, 0, "{} weights on {clock:?}", costs.len());
            assert_eq!(allocations(|| one(costs)), 0);
        }
    }
}

#[test]
fn refusing_a_call_allocates_nothing() {
    let time = ManualClock::new();
    let empty = TokenBucket::per_second(5).initial(0);
    let empty = Gate::builder(empty)
        .name("empty")
        .clock(time.clock())
        .build();
    let plenty = Gate::builder(TokenBucket::greedy(PLENTY))
        .clock(time.clock())
        .build();
    let provider = Provider::builder()
        .limit(Weight::REQUEST_COUNT, plenty)
        .limit(Weight::MEMORY_SIZE, empty.clone())
        .build()
        .expect("each weight once");
    let costs = [(Weight::MEMORY_SIZE, 2), (Weight::REQUEST_COUNT, 1)];
    // What a thread that waits needs once.
    drop(empty.acquire_blocking(1));
    for reason in [Reason::Saturated, Reason::Exhausted] {
        let count = allocations(|| {
            let denied = provider
                .limit_call(&costs, || Ok::<_, Denied>(()))
                .unwrap_err();
            assert_eq!((denied.reason(), denied.limiter()), (reason, Some("empty")));
            assert_eq!(provider.try_acquire(&costs).unwrap_err().reason(), reason);
        });
        assert_eq!(count, 0);
        time.advance(Duration::from_millis(200));
    }
}
