//! Several weights at once: in one order, all or none, charged once.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::{Clock, Concurrency, Gate, InvalidLimit, ManualClock, Reason, Rule, TokenBucket};
use plimsoll_kinds::{AnyLimiter, Basic, Provider, Provides, Rate, Weight};

const COUNT: Weight = Weight::REQUEST_COUNT;
const ITEMS: Weight = Weight::REQUEST_ITEMS;
const BYTES: Weight = Weight::NETWORK_BYTES;
const MEMORY: Weight = Weight::MEMORY_SIZE;

fn gate<R: Rule>(name: &str, rule: R, clock: &Clock) -> Gate<R> {
    Gate::builder(rule).name(name).clock(clock.clone()).build()
}

fn only(weight: Weight, limiter: impl Into<AnyLimiter>) -> Provider {
    Provider::builder().limit(weight, limiter).build().unwrap()
}

#[test]
fn a_weight_has_one_limiter() {
    let gate = || Gate::new(TokenBucket::per_second(1));
    let twice = Provider::builder()
        .limit(BYTES, gate())
        .limit(COUNT, gate())
        .limit(BYTES, gate());
    let invalid = twice.build().unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "`weight` is network_bytes: expected each weight to have one limiter"
    );
}

#[test]
fn saturation_is_asked_once_and_then_the_weights_in_their_order() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let basic = |name: &'static str| {
        let asked = Arc::clone(&asked);
        Basic::new(name, move || {
            asked.lock().unwrap().push(name);
            Ok(())
        })
    };
    let provider = Provider::builder()
        .limit(Weight::new("tokens"), basic("tokens"))
        .limit(MEMORY, basic("memory"))
        .limit(COUNT, basic("count"))
        .limit(Weight::new("disk"), basic("disk"))
        .limit(ITEMS, basic("items"))
        .limit(BYTES, basic("bytes"))
        .basic(basic("switch"))
        .build()
        .unwrap();
    let order = ["count", "items", "bytes", "memory", "disk", "tokens"];
    let weights: Vec<_> = provider.weights().map(Weight::as_str).collect();
    assert_eq!(
        weights,
        [
            "request_count",
            "request_items",
            "network_bytes",
            "memory_size",
            "disk",
            "tokens"
        ]
    );

    let costs = [(Weight::new("tokens"), 1), (BYTES, 2), (COUNT, 1)];
    let permits = provider.try_acquire(&costs).unwrap();
    assert_eq!(permits.len(), 3);
    let mut expected = vec!["switch"];
    expected.extend(order);
    expected.extend(["count", "bytes", "tokens"]);
    assert_eq!(*asked.lock().unwrap(), expected);

    // Six are more than are kept in place.
    let all: Vec<_> = provider.weights().map(|weight| (weight, 1)).collect();
    let permits = provider.try_acquire(&all[..]).unwrap();
    assert_eq!((permits.len(), permits.iter().count()), (6, 6));
    drop(permits.into_owned());
}

#[test]
fn what_is_saturated_refuses_even_those_who_do_not_ask_for_it() {
    let time = ManualClock::new();
    let memory = gate("memory", Concurrency::new(10), &time.clock());
    let requests = gate("requests", TokenBucket::per_second(10), &time.clock());
    let provider = Provider::builder()
        .limit(MEMORY, memory.clone())
        .limit(COUNT, requests.clone())
        .build()
        .unwrap();
    let held = memory.try_acquire(10).unwrap();
    let denied = provider.try_acquire(&[(COUNT, 1)]).unwrap_err();
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::Saturated, Some("memory"))
    );
    assert_eq!(provider.check_saturation(), Err(denied));
    assert_eq!(requests.snapshot().available(), 10);
    drop(held);
    assert!(provider.try_acquire(&[(COUNT, 1)]).is_ok());
}

#[test]
fn all_or_none_and_the_refusal_says_who_and_when() {
    let time = ManualClock::new();
    let requests = gate("requests", TokenBucket::per_second(10), &time.clock());
    let items = gate("items", Concurrency::new(50), &time.clock());
    let nameless = Gate::builder(TokenBucket::per_second(100))
        .clock(time.clock())
        .build();
    let provider = Provider::builder()
        .limit(BYTES, nameless.clone())
        .limit(ITEMS, items.clone())
        .limit(COUNT, requests.clone())
        .build()
        .unwrap();
    let costs = [(BYTES, 60), (COUNT, 4), (ITEMS, 5)];
    let first = provider.try_acquire(&costs).unwrap();
    assert_eq!(
        first.iter().map(plimsoll::Permit::cost).collect::<Vec<_>>(),
        [4, 5, 60]
    );

    let denied = provider.try_acquire(&costs).unwrap_err();
    assert_eq!(denied.reason(), Reason::Exhausted);
    assert_eq!(
        denied.limiter(),
        Some("network_bytes"),
        "the weight, for want of a name"
    );
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    let seen = (requests.snapshot(), items.snapshot(), nameless.snapshot());
    assert_eq!(
        (seen.0.available(), seen.1.in_use(), seen.2.available()),
        (6, 5, 40)
    );
    assert_eq!((seen.0.granted_total(), seen.1.granted_total()), (1, 1));

    // The first refuses for a short while, the last for longer: that is how long it takes.
    drop(requests.try_acquire(5).unwrap());
    let denied = provider
        .try_acquire(&[(COUNT, 2), (BYTES, 90)])
        .unwrap_err();
    assert_eq!(denied.limiter(), Some("requests"));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));

    first.undo();
    assert_eq!(
        (items.snapshot().in_use(), nameless.snapshot().available()),
        (0, 100)
    );
    assert_eq!(requests.snapshot().available(), 5);
}

#[test]
fn what_is_not_limited_is_free_and_what_is_named_twice_counts_once_with_both_costs() {
    let time = ManualClock::new();
    let items = gate("items", TokenBucket::per_second(10), &time.clock());
    let provider = only(ITEMS, items.clone());
    assert!(
        provider
            .try_acquire(&[(MEMORY, u64::MAX)])
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        provider
            .try_acquire(&[(ITEMS, 4), (ITEMS, 3)])
            .unwrap()
            .len(),
        1
    );
    assert_eq!(items.snapshot().available(), 3);
    let denied = provider
        .try_acquire(&[(ITEMS, u64::MAX), (ITEMS, 1)])
        .unwrap_err();
    assert_eq!(denied.reason(), Reason::TooLarge);
    let nothing = Provider::all([]);
    assert!(nothing.try_acquire(&[(ITEMS, 1)]).unwrap().is_empty());
    assert!(nothing.rate(ITEMS).unwrap().is_none() && nothing.resource(ITEMS).is_none());
}

#[test]
fn several_providers_are_one_and_share_what_they_share() {
    let time = ManualClock::new();
    let shared = Rate::from(gate("shared", TokenBucket::per_second(10), &time.clock()));
    let own = gate("own", TokenBucket::per_second(3), &time.clock());
    let first = only(BYTES, shared.clone());
    let second = Provider::builder()
        .limit(BYTES, shared.clone())
        .limit(COUNT, own.clone())
        .build()
        .unwrap();
    let third = only(BYTES, own.clone());
    let all = Provider::all([first, second, third]);
    assert_eq!(all.limiters(BYTES).count(), 2);
    assert_eq!(all.weights().collect::<Vec<_>>(), [COUNT, BYTES]);
    drop(all.try_acquire(&[(BYTES, 2)]).unwrap());
    assert_eq!(
        (shared.snapshot().available(), own.snapshot().available()),
        (8, 1)
    );
    let denied = all.try_acquire(&[(BYTES, 2)]).unwrap_err();
    assert_eq!(denied.limiter(), Some("own"));
    assert_eq!(
        (shared.snapshot().available(), own.snapshot().available()),
        (8, 1)
    );
    assert_eq!(all.rate(BYTES).unwrap().unwrap().snapshot().limit(), 3);
}

struct Registry(Option<InvalidLimit>);

impl Provides for Registry {
    fn limiter(&self, weight: Weight) -> Result<Option<AnyLimiter>, InvalidLimit> {
        match (weight, &self.0) {
            (MEMORY, Some(invalid)) => Err(invalid.clone()),
            (BYTES, _) => Ok(None),
            _ => Ok(Some(Gate::new(TokenBucket::per_second(1)).into())),
        }
    }

    fn basic(&self) -> Result<Option<Basic>, InvalidLimit> {
        Ok(Some(Basic::when("switch", || false)))
    }
}

#[test]
fn an_error_is_never_taken_for_no_limit() {
    let provider = Provider::of(&Registry(None), &Weight::KNOWN).unwrap();
    assert_eq!(
        provider.weights().collect::<Vec<_>>(),
        [COUNT, ITEMS, MEMORY]
    );
    let invalid = InvalidLimit::new("limit", 0, "at least 1");
    let failing = Provider::of(&Registry(Some(invalid.clone())), &Weight::KNOWN);
    assert_eq!(failing.map(drop), Err(invalid));
}

#[test]
fn a_resource_where_a_rate_is_asked_for_is_an_error_and_not_nothing() {
    let switch = Basic::when("switch", || true);
    let provider = Provider::builder()
        .basic(switch)
        .limit(BYTES, Gate::new(TokenBucket::per_second(1)))
        .limit(MEMORY, gate("slots", Concurrency::new(1), &Clock::system()))
        .build()
        .unwrap();
    let invalid = provider.rate(MEMORY).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "`kind` is resource (slots): expected rate or basic"
    );
    // What says yes or no for all weights goes with every one of them.
    for rate in [BYTES, COUNT].map(|weight| provider.rate(weight).unwrap().unwrap()) {
        assert_eq!(
            rate.try_acquire(1.into()).unwrap_err().limiter(),
            Some("switch")
        );
    }
    let resource = provider.resource(MEMORY).unwrap();
    assert_eq!(
        resource.try_acquire(1.into()).unwrap_err().limiter(),
        Some("switch")
    );
}
