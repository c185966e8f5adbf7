//! Which limiter may stand where, and what it says when it is saturated.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Aimd};
use plimsoll::{
    All, Bandwidths, Clock, Concurrency, Counts, Demand, Denied, FixedWindow, Gate, Limiter,
    LimiterExt, ManualClock, Partition, Partitions, PenaltyBucket, Queue, Reason, Refresh,
    SlidingCounter, SlidingLog, SlidingWindow, Smooth, TokenBucket,
};
use plimsoll_kinds::{AnyLimiter, Basic, LimiterKind, Rate, Resource, Weight};

/// Whether the compiler lets a limiter stand in for another: the constant of the type goes before that of the trait,
/// where it exists.
struct Standing<L, K>(PhantomData<(L, K)>);

impl<L: Into<K>, K> Standing<L, K> {
    const ALLOWED: bool = true;
}

trait Otherwise {
    const ALLOWED: bool = false;
}

impl<L, K> Otherwise for Standing<L, K> {}

macro_rules! allowed {
    ($kind:ty: $($limiter:ty),+ $(,)?) => { $(assert!(Standing::<$limiter, $kind>::ALLOWED);)+ };
}

macro_rules! forbidden {
    ($kind:ty: $($limiter:ty),+ $(,)?) => { $(assert!(!Standing::<$limiter, $kind>::ALLOWED);)+ };
}

/// What would be an error in the source is one here, too: none of this is decided at run time.
#[test]
fn a_place_that_cannot_hold_a_permit_takes_rates_and_basic_limiters_only() {
    const {
        allowed!(Rate: Basic, Rate, Gate<Bandwidths>, Gate<FixedWindow>, Gate<PenaltyBucket>, Gate<Refresh>);
        allowed!(Rate: Gate<SlidingCounter>, Gate<SlidingLog>, Gate<SlidingWindow>, Gate<Smooth>, Gate<TokenBucket>);
        forbidden!(Rate: Resource, Gate<Concurrency>, Gate<Adaptive<Aimd>>, Partition<Concurrency>);
        forbidden!(Rate: All, AnyLimiter, Arc<dyn Limiter>);
    }
}

#[test]
fn every_kind_may_stand_where_a_permit_can_be_held() {
    const {
        allowed!(Resource: Basic, Rate, Resource, AnyLimiter, All);
        allowed!(Resource: Gate<TokenBucket>, Gate<Concurrency>, Partition<Concurrency>);
        forbidden!(Basic: Rate, Resource);
    }
}

#[test]
fn the_kind_can_be_asked_for() {
    let slots = || Gate::new(Concurrency::new(2));
    let shares = Partitions::try_new(slots(), [("one", 1)]).unwrap();
    let kinds = [
        (Basic::when("never", || false).into(), LimiterKind::Basic),
        (
            Gate::new(TokenBucket::per_second(1)).into(),
            LimiterKind::Rate,
        ),
        (
            Rate::from(Basic::when("never", || false)).into(),
            LimiterKind::Rate,
        ),
        (slots().into(), LimiterKind::Resource),
        (shares.get("one").unwrap().into(), LimiterKind::Resource),
        (
            All::new([Arc::new(slots()) as Arc<dyn Limiter>]).into(),
            LimiterKind::Resource,
        ),
    ];
    for (limiter, kind) in kinds {
        let limiter: AnyLimiter = limiter;
        assert_eq!(limiter.kind(), kind, "{limiter:?}");
        assert_eq!(
            Rate::try_from(limiter).is_ok(),
            kind != LimiterKind::Resource
        );
    }
    let words =
        [LimiterKind::Basic, LimiterKind::Rate, LimiterKind::Resource].map(LimiterKind::as_str);
    assert_eq!(words, ["basic", "rate", "resource"]);
}

/// A basic limiter with a switch, and how often it was asked.
fn switch() -> (Basic, Arc<AtomicBool>, Arc<AtomicU32>) {
    let (full, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let (seen, count) = (Arc::clone(&full), Arc::clone(&asked));
    let basic = Basic::when("switch", move || {
        count.fetch_add(1, Ordering::Relaxed);
        seen.load(Ordering::Relaxed)
    });
    (basic, full, asked)
}

#[test]
fn a_basic_limiter_as_a_rate_is_asked_for_every_demand_whatever_the_cost() {
    let (basic, full, asked) = switch();
    let rate = Rate::from(basic);
    for cost in [0, 1, u64::MAX] {
        let reserved = rate.reserve(Demand::of(cost)).unwrap();
        assert_eq!(reserved.wait(), Some(Duration::ZERO));
        drop(reserved);
        drop(rate.try_acquire(Demand::of(cost)).unwrap());
        drop(
            rate.acquire_blocking(Demand::of(cost))
                .unwrap()
                .into_owned(),
        );
    }
    assert_eq!(asked.load(Ordering::Relaxed), 9);
    assert_eq!(rate.snapshot().available(), u64::MAX);

    full.store(true, Ordering::Relaxed);
    let refusals = [
        rate.try_acquire(Demand::ONE).map(drop),
        rate.acquire_blocking(Demand::ONE).map(drop),
        rate.reserve(Demand::ONE).map(drop),
        rate.estimate(Demand::ONE),
        rate.check_saturation(),
    ];
    for refusal in refusals {
        let denied = refusal.unwrap_err();
        assert_eq!(denied.reason(), Reason::Saturated);
        assert_eq!(denied.limiter(), Some("switch"));
    }
    assert_eq!(rate.snapshot().available(), 0);
}

#[test]
fn a_basic_limiter_as_a_resource_gives_back_as_often_as_one_likes() {
    let resource = Resource::from(switch().0);
    for _ in 0..3 {
        let one = resource.try_acquire(Demand::of(5)).unwrap();
        let other = resource
            .acquire_blocking(Demand::of(5))
            .unwrap()
            .into_owned();
        one.undo();
        drop(other);
    }
}

#[test]
fn a_basic_limiter_can_be_closed_and_may_give_its_own_reasons() {
    let basic = Basic::from(|| Err(Denied::new(Reason::Shed)));
    assert_eq!(basic.check_saturation().unwrap_err().reason(), Reason::Shed);
    assert_eq!(basic.name(), None);
    let basic = Basic::new("memory", || Err(Denied::new(Reason::Saturated)));
    assert_eq!(
        basic.check_saturation().unwrap_err().limiter(),
        Some("memory")
    );
    let (basic, ..) = switch();
    basic.close();
    assert_eq!(
        basic.check_saturation().unwrap_err().reason(),
        Reason::Closed
    );
}

#[test]
fn a_rate_as_a_resource_cancels_before_its_time_and_keeps_afterwards() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(10)).clock(time.clock());
    let resource = Resource::from(Rate::from(gate.build()));
    drop(resource.try_acquire(Demand::of(10)).unwrap());
    assert_eq!(resource.snapshot().available(), 0, "nothing is given back");

    let second = Some(Duration::from_secs(1));
    let cancelled = resource.reserve(Demand::of(10)).unwrap();
    assert_eq!(cancelled.wait(), second);
    drop(cancelled);
    let used = resource.reserve(Demand::of(10)).unwrap();
    assert_eq!(used.wait(), second, "what was cancelled costs nothing");
    time.advance(Duration::from_secs(1));
    drop(used.wait_blocking().unwrap());
    assert_eq!(resource.snapshot().available(), 0);
}

#[test]
fn several_rates_are_one_rate() {
    let time = ManualClock::new();
    let rate = |name, count| {
        let gate = Gate::builder(TokenBucket::per_second(count)).name(name);
        Rate::from(gate.clock(time.clock()).build())
    };
    let (wide, narrow) = (rate("wide", 10), rate("narrow", 2));
    let both = Rate::all([wide.clone(), narrow]).unwrap();
    drop(both.try_acquire(Demand::of(2)).unwrap());
    assert_eq!(
        both.try_acquire(Demand::ONE).unwrap_err().limiter(),
        Some("narrow")
    );
    assert_eq!(
        both.check_saturation().unwrap_err().limiter(),
        Some("narrow")
    );
    assert_eq!(wide.snapshot().available(), 8);
    assert!(Rate::all([]).is_err() && Resource::all([]).is_err());
}

#[test]
fn weights_have_names_and_an_order() {
    let names = Weight::KNOWN.map(Weight::as_str);
    let order = [
        "request_count",
        "request_items",
        "network_bytes",
        "memory_size",
    ];
    assert_eq!(names, order);
    for name in order.into_iter().chain(["tokens", "a"]) {
        assert_eq!(Weight::new(name).to_string(), name);
        assert_eq!(Weight::new(name), Weight::new(&String::from(name)));
    }
    let mut weights = [
        "zebra",
        "memory_size",
        "a",
        "network_bytes",
        "request_items",
        "request_count",
    ]
    .map(Weight::new);
    weights.sort();
    let sorted = [
        "request_count",
        "request_items",
        "network_bytes",
        "memory_size",
        "a",
        "zebra",
    ];
    assert_eq!(weights.map(Weight::as_str), sorted);
    assert!(size_of::<Weight>() <= 16);
}

#[test]
fn a_rate_is_saturated_when_nothing_is_left_and_nothing_may_wait() {
    let time = ManualClock::new();
    let gate = Gate::builder(TokenBucket::per_second(2))
        .name("api")
        .clock(time.clock());
    let gate = gate.build();
    assert_eq!(gate.check_saturation(), Ok(()));
    drop(gate.try_acquire(1).unwrap());
    assert_eq!(gate.check_saturation(), Ok(()));
    drop(gate.try_acquire(1).unwrap());
    let denied = gate.check_saturation().unwrap_err();
    assert_eq!(denied.reason(), Reason::Saturated);
    assert_eq!(denied.limiter(), Some("api"));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    time.advance(Duration::from_millis(500));
    assert_eq!(gate.check_saturation(), Ok(()));
    assert_eq!(gate.snapshot().denied_total(), 0, "nothing is counted");
}

#[test]
fn with_a_queue_nothing_is_saturated_before_the_queue_is_full() {
    let time = ManualClock::new();
    for queue in [Queue::fifo(2), Queue::fifo(2).counts(Counts::Waiting)] {
        let rate = Gate::builder(TokenBucket::per_second(3)).queue(queue);
        let slots = Gate::builder(Concurrency::new(3)).queue(queue);
        let gates: [Arc<dyn Limiter>; 2] = [
            Arc::new(rate.clock(time.clock()).build()),
            Arc::new(slots.clock(time.clock()).build()),
        ];
        for gate in gates {
            let _held = gate.try_acquire(Demand::of(3)).unwrap();
            assert_eq!(gate.check_saturation(), Ok(()));
            let first = gate.reserve(Demand::ONE);
            let mut waiting = Vec::new();
            for _ in 0..2 {
                let mut waiter = Box::pin(gate.acquire(Demand::ONE));
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                let _answer = waiter.as_mut().poll(&mut cx);
                waiting.push(waiter);
            }
            let denied = gate.check_saturation().unwrap_err();
            assert_eq!(denied.reason(), Reason::Saturated);
            drop(waiting);
            drop(first);
            assert_eq!(gate.check_saturation(), Ok(()));
        }
    }
}

#[test]
fn what_is_given_back_is_saturated_when_in_use_and_waiting_reach_limit_and_bound() {
    let gate = Gate::builder(Concurrency::new(3)).name("slots").build();
    let held = gate.try_acquire(2).unwrap();
    assert_eq!(gate.check_saturation(), Ok(()));
    let more = gate.try_acquire(1).unwrap();
    let denied = gate.check_saturation().unwrap_err();
    assert_eq!(
        (denied.limiter(), denied.retry_after()),
        (Some("slots"), None)
    );
    assert_eq!((denied.limit(), denied.remaining()), (3, 0));
    drop(more);
    assert_eq!(gate.check_saturation(), Ok(()));
    gate.resize(2).unwrap();
    assert!(gate.check_saturation().is_err());
    drop(held);
    gate.close();
    assert_eq!(
        gate.check_saturation().unwrap_err().reason(),
        Reason::Closed
    );
}

#[test]
fn every_rule_answers_whether_it_is_saturated() {
    let time = ManualClock::new();
    let clock = time.clock();
    fn gate<R: plimsoll::Rule>(rule: R, clock: &Clock) -> Arc<dyn Limiter> {
        Arc::new(Gate::builder(rule).clock(clock.clone()).build())
    }
    let quota = plimsoll::Quota::per_second(4);
    let all: Vec<Arc<dyn Limiter>> = vec![
        gate(TokenBucket::greedy(quota), &clock),
        gate(TokenBucket::interval(quota), &clock),
        gate(FixedWindow::new(quota), &clock),
        gate(SlidingWindow::new(quota, 4), &clock),
        gate(SlidingLog::new(quota), &clock),
        gate(SlidingCounter::new(quota), &clock),
        gate(PenaltyBucket::new(TokenBucket::greedy(quota)), &clock),
        gate(Smooth::bursty(4.0, Duration::from_secs(1)), &clock),
        gate(Concurrency::new(4), &clock),
    ];
    for limiter in &all {
        assert_eq!(limiter.check_saturation(), Ok(()));
        limiter.try_acquire(Demand::of(4)).unwrap().forget();
        let denied = limiter.check_saturation().unwrap_err();
        assert_eq!(denied.reason(), Reason::Saturated);
        if let Some(after) = denied.retry_after() {
            assert_eq!(
                limiter.try_acquire(Demand::ONE).unwrap_err().retry_after(),
                Some(after)
            );
        }
    }
}

#[test]
fn a_partition_is_saturated_when_it_may_have_no_more() {
    let shares = Partitions::try_new(Gate::new(Concurrency::new(4)), [("live", 1), ("batch", 1)]);
    let shares = shares.unwrap();
    let (live, batch) = (shares.get("live").unwrap(), shares.get("batch").unwrap());
    let claimed = live.try_acquire(Demand::of(2)).unwrap();
    assert_eq!(batch.check_saturation(), Ok(()));
    let _held = batch.try_acquire(Demand::of(2)).unwrap();
    for (name, share) in [("live", &live), ("batch", &batch)] {
        let denied = share.check_saturation().unwrap_err();
        assert_eq!(denied.reason(), Reason::Saturated);
        assert_eq!(denied.limiter(), Some(name));
    }
    drop(claimed);
    assert_eq!(live.check_saturation(), Ok(()));
}
