//! Consumers behind limiters, and the sets of weights that stand before and behind middleware.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Duration;

use plimsoll::{
    Clock, Concurrency, Denied, Gate, InvalidLimit, ManualClock, Queue, Reason, TokenBucket,
};
use plimsoll_kinds::{AnyLimiter, Basic, Provider, Provides, Weight};

use crate::poll::poll;

type Batch = Vec<&'static str>;

fn weigh(batch: &Batch, weight: Weight) -> u64 {
    match weight {
        Weight::REQUEST_ITEMS => batch.len() as u64,
        _ => batch.iter().map(|line| line.len() as u64).sum(),
    }
}

/// So many items a second, and so many bytes at once.
fn limits(clock: &Clock, items: u64, bytes: u64) -> (Provider, Gate<Concurrency>) {
    let memory = Gate::builder(Concurrency::new(bytes))
        .queue(Queue::fifo(100))
        .clock(clock.clone())
        .build();
    let items = Gate::builder(TokenBucket::per_second(items)).clock(clock.clone());
    let provider = Provider::builder()
        .limit(Weight::REQUEST_ITEMS, items.build())
        .limit(Weight::MEMORY_SIZE, memory.clone())
        .limit(Weight::REQUEST_COUNT, Gate::new(Concurrency::new(1)))
        .build();
    (provider.expect("each weight has one limiter"), memory)
}

#[test]
fn a_consumer_is_limited_in_one_line() {
    let time = ManualClock::new();
    let (provider, memory) = limits(&time.clock(), 5, 100);
    let consumer = provider.limited(&Weight::NOT_MIDDLEWARE, weigh, |batch: Batch| {
        assert_eq!(memory.snapshot().in_use(), 6, "held while it works");
        Ok::<_, Denied>(batch.len())
    });
    assert_eq!(consumer.consume(vec!["one", "two"]), Ok(2));
    assert_eq!(memory.snapshot().in_use(), 0, "and returned then");
    let denied = consumer.consume(vec!["a", "b", "c", "d"]).unwrap_err();
    assert_eq!(denied.limiter(), Some("request_items"));
    // What is refused has taken nothing.
    assert_eq!(consumer.consume(vec!["two", "one"]), Ok(2));
}

#[test]
fn only_weights_that_are_limited_and_named_are_measured() {
    let (provider, _) = limits(&Clock::system(), 5, 100);
    let measured = RefCell::new(Vec::new());
    let measure = |_: &Batch, weight: Weight| {
        measured.borrow_mut().push(weight);
        1
    };
    let weights = [
        Weight::MEMORY_SIZE,
        Weight::NETWORK_BYTES,
        Weight::REQUEST_ITEMS,
    ];
    let consumer = provider.limited(&weights, measure, |_| Ok::<_, Denied>(()));
    assert_eq!(consumer.consume(Batch::new()), Ok(()));
    assert_eq!(
        *measured.borrow(),
        [Weight::REQUEST_ITEMS, Weight::MEMORY_SIZE],
        "in the order of weights"
    );
}

#[test]
fn a_saturated_limiter_stops_a_batch_before_it_is_decoded_or_measured() {
    let full = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&full);
    let memory = Basic::new("memory", move || match seen.load(SeqCst) {
        true => Err(Denied::new(Reason::Saturated)),
        false => Ok(()),
    });
    let (limits, _) = limits(&Clock::system(), 50, 100);
    let closed = Provider::builder().basic(memory).build().unwrap();
    let provider = Provider::all([closed, limits]);
    let calls = Cell::new((0, 0));
    let measure = |batch: &Batch, weight| {
        calls.set((calls.get().0, calls.get().1 + 1));
        weigh(batch, weight)
    };
    let consumer = provider.limited(&Weight::NOT_MIDDLEWARE, measure, |batch: Batch| {
        Ok::<_, Denied>(batch.len())
    });
    let decode = |raw: &'static str| {
        calls.set((calls.get().0 + 1, calls.get().1));
        Ok(raw.split(' ').collect::<Batch>())
    };
    assert!(consumer.check_saturation().is_err());
    let refused = consumer.receive("one two", decode);
    assert_eq!(refused.unwrap_err().reason(), Reason::Saturated);
    assert!(consumer.consume(vec!["one"]).is_err());
    assert_eq!(calls.get(), (0, 0));
    full.store(false, SeqCst);
    assert_eq!(consumer.receive("one two", decode), Ok(2));
    assert_eq!(calls.get(), (1, 2));
}

#[test]
fn it_waits_in_the_queues_and_no_longer_than_it_may() {
    let time = ManualClock::new();
    let (provider, memory) = limits(&time.clock(), 50, 10);
    let consumer = provider
        .limited(&Weight::NOT_MIDDLEWARE, weigh, |batch: Batch| async move {
            Ok::<_, Denied>(batch.len())
        })
        .within(Duration::from_secs(2));
    let held = memory.try_acquire(8).unwrap();
    let mut first = Box::pin(consumer.consume_async(vec!["three"]));
    assert!(poll(&mut first).is_pending());
    drop(held);
    assert_eq!(poll(&mut first), Poll::Ready(Ok(1)));

    let _held = memory.try_acquire(8).unwrap();
    let mut second =
        Box::pin(consumer.receive_async("a bc def", |raw| Ok(raw.split(' ').collect::<Batch>())));
    assert!(poll(&mut second).is_pending());
    time.advance(Duration::from_secs(2) + Duration::from_nanos(1));
    let Poll::Ready(Err(denied)) = poll(&mut second) else {
        panic!("its time is over");
    };
    assert_eq!(denied.reason(), Reason::TimedOut);
}

#[test]
fn the_sets_of_weights_are_disjoint_and_complete() {
    let mut both = [Weight::MIDDLEWARE, Weight::NOT_MIDDLEWARE].concat();
    both.sort();
    assert_eq!(both, Weight::KNOWN);
    assert_eq!(
        Weight::MIDDLEWARE,
        [Weight::REQUEST_COUNT, Weight::NETWORK_BYTES]
    );
}

/// A source of one kind for requests and another for bytes.
struct Mixed;

impl Provides for Mixed {
    fn limiter(&self, weight: Weight) -> Result<Option<AnyLimiter>, InvalidLimit> {
        Ok(match weight {
            Weight::REQUEST_COUNT => Some(Gate::new(Concurrency::new(1)).into()),
            Weight::NETWORK_BYTES => Some(Gate::new(TokenBucket::per_second(1)).into()),
            Weight::MEMORY_SIZE => Some(Basic::when("switch", || false).into()),
            _ => None,
        })
    }
}

#[test]
fn a_source_is_of_rates_or_of_resources_and_not_of_both() {
    let invalid = Provider::of(&Mixed, &Weight::KNOWN).unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "`kind` is rate (network_bytes): expected the kind of the other weights of its source"
    );
    let of = |weights: &[Weight]| Provider::of(&Mixed, weights);
    let one = of(&[Weight::REQUEST_COUNT, Weight::MEMORY_SIZE]).unwrap();
    let other = of(&[Weight::NETWORK_BYTES, Weight::MEMORY_SIZE]).unwrap();
    // Several sources together may be of both.
    assert_eq!(Provider::all([one, other]).weights().count(), 3);
}
