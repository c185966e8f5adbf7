//! What may cross threads, what may be moved while it is polled, and how large it is.

use std::sync::Arc;

use plimsoll::rate::{Filling, Segments, Window};
use plimsoll::{
    Acquire, All, Batched, Clock, Concurrency, Counts, Demand, Denied, FixedWindow, Full, Gate,
    GateBuilder, InvalidLimit, Limiter, LimiterExt, ManualClock, Moment, Outcome, PackedTake,
    Permit, Priority, Queue, Quota, Reason, Refusal, Reservation, Sleep, SlidingWindow, Slots,
    Snapshot, Source, TokenBucket,
};

const fn is_send<T: Send + ?Sized>() {}
const fn is_sync<T: Sync + ?Sized>() {}
const fn is_unpin<T: Unpin + ?Sized>() {}
const fn is_static<T: 'static>() {}
const fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

macro_rules! all {
    ($($type:ty),* $(,)?) => {
        $({
            is_send::<$type>();
            is_unpin::<$type>();
        })*
    };
}

macro_rules! all_shared {
    ($($type:ty),* $(,)?) => {
        all!($($type),*);
        $(is_sync::<$type>();)*
    };
}

#[test]
fn what_may_cross_threads() {
    // What is waited on is polled by one at a time.
    all!(Acquire<'static>, Reservation<'static>, Sleep);

    all_shared!(
        All,
        Batched<TokenBucket>,
        Clock,
        Concurrency,
        Counts,
        Demand,
        Denied,
        Filling,
        FixedWindow,
        Full,
        Gate<Concurrency>,
        Gate<FixedWindow>,
        Gate<SlidingWindow>,
        Gate<TokenBucket>,
        GateBuilder<TokenBucket>,
        InvalidLimit,
        ManualClock,
        Moment,
        Outcome,
        Permit<'static>,
        Priority,
        Queue,
        Quota,
        Reason,
        Refusal,
        Segments,
        PackedTake,
        SlidingWindow,
        Slots,
        Snapshot,
        TokenBucket,
        Window,
    );

    is_send::<dyn Limiter>();
    is_sync::<dyn Limiter>();
    is_send::<dyn Source>();
    is_sync::<dyn Source>();
    is_static::<Gate<TokenBucket>>();
    is_static::<All>();
    is_error::<Denied>();
    is_error::<InvalidLimit>();
}

#[test]
fn a_limiter_can_be_used_without_knowing_its_kind() {
    let gate = Gate::new(Concurrency::new(1));
    let shared: Arc<dyn Limiter> = Arc::new(gate.clone());
    let all: Box<dyn Limiter> = Box::new(All::new([Arc::clone(&shared)]));
    let known: &dyn Limiter = &gate;
    for limiter in [known, &*shared, &*all] {
        let permit = limiter.try_acquire(Demand::ONE).unwrap();
        assert!(limiter.acquire_blocking(Demand::ONE).is_err());
        drop(permit);
    }
}

#[test]
fn a_future_can_be_spawned_and_finish_elsewhere() {
    let gate = Gate::new(Concurrency::new(1));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let permit = runtime.block_on(async move {
        let task = async move { gate.acquire(1).await.map(Permit::into_owned) };
        tokio::spawn(task).await
    });
    assert!(permit.unwrap().is_ok());
}

#[test]
fn what_is_waited_on_is_small() {
    let sizes = [
        ("Acquire", size_of::<Acquire<'_>>(), 128),
        ("Permit", size_of::<Permit<'_>>(), 48),
        ("Denied", size_of::<Denied>(), 64),
        (
            "Result of try_acquire",
            size_of::<Result<Permit<'_>, Denied>>(),
            64,
        ),
        ("Gate", size_of::<Gate<TokenBucket>>(), size_of::<usize>()),
    ];
    for (name, size, most) in sizes {
        assert!(size <= most, "{name}: {size} bytes");
    }
}
