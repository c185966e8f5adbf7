//! What is counted, and that it comes back to nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::hand::{gate, poll};
use crate::page::{page, sum, value};
use plimsoll::{
    Acquire, All, Clock, Concurrency, Demand, Denied, Gate, Limiter, LimiterExt, ManualClock,
    Outcome, Permit, Priority, Queue, Reason, Reservation, Shareable, Snapshot, TokenBucket,
};
use plimsoll_observe::prometheus_client::registry::Registry;
use plimsoll_observe::{Metered, Method, Metrics};

const ITEMS: &str = "http_requests_concurrency_items_total";
const QUEUE: &str = "http_requests_queue_items_total";
const TIMES: &str = "http_requests_task_processing_time_seconds_count";
const WAITS: &str = "http_requests_queue_time_seconds_count";
const REJECTED: &str = "http_requests_rejected_total";

fn metered<L: Limiter + 'static>(limiter: L) -> (Registry, Metered<L>) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let metered = metrics.meter(Arc::new(limiter)).expect("the only one");
    (registry, metered)
}

#[test]
fn a_crowd_larger_than_the_limit_and_the_queue_is_refused_by_method_and_priority() {
    let time = ManualClock::new();
    let (registry, metered) = metered(gate(&time, 100, 4));
    let classes = [("GET", Priority::Normal), ("POST", Priority::NonCritical)];
    let mut crowd: Vec<_> = (0..1000)
        .map(|n| {
            let (method, priority) = classes[n % 2];
            metered.acquire(method, Demand::of(1).priority(priority))
        })
        .collect();
    let mut permits = Vec::new();
    let mut refused = 0;
    for acquire in &mut crowd {
        match poll(acquire) {
            Poll::Ready(Ok(permit)) => permits.push(permit),
            Poll::Ready(Err(_)) => refused += 1,
            Poll::Pending => {}
        }
    }
    assert_eq!(sum(&registry, ITEMS), 100.0);
    permits.clear();
    for acquire in &mut crowd {
        // Those that are done say no, and are not counted again.
        drop(poll(acquire));
    }
    assert_eq!(sum(&registry, ITEMS), 0.0);
    assert_eq!(sum(&registry, QUEUE), 0.0);
    assert_eq!(sum(&registry, TIMES) + sum(&registry, REJECTED), 1000.0);
    // Two of those that waited had to make room for work that matters more.
    assert_eq!(sum(&registry, REJECTED), f64::from(refused + 2));
    for (method, priority) in [("GET", "normal"), ("POST", "noncritical")] {
        let labels = format!("method=\"{method}\",priority=\"{priority}\"");
        let series = format!("{REJECTED}{{{labels},reason=\"max_queue_items\"}}");
        assert!(value(&registry, &series) > Some(400.0), "{series}");
    }
}

#[test]
fn a_crowd_within_the_limit_is_not_refused() {
    let (registry, metered) = metered(gate(&ManualClock::new(), 160, 20));
    let crowd: Vec<_> = (0..160).map(|_| metered.try_acquire("GET", 1)).collect();
    assert!(crowd.iter().all(Result::is_ok));
    drop(crowd);
    assert!(!page(&registry).contains(REJECTED));
    assert_eq!(sum(&registry, TIMES), 160.0);
}

#[test]
fn who_gives_up_waiting_leaves_the_gauge_and_is_not_refused() {
    let time = ManualClock::new();
    let (registry, metered) = metered(gate(&time, 1, 5));
    let running = metered.try_acquire(Method::Unknown, 1).unwrap();
    let mut waiting = metered.acquire("GET", 1);
    drop(metered.acquire("GET", 1)); // never polled: never came
    assert!(!page(&registry).contains(QUEUE));
    assert!(poll(&mut waiting).is_pending());
    assert!(poll(&mut waiting).is_pending());
    assert_eq!(sum(&registry, QUEUE), 1.0);
    time.advance(Duration::from_millis(7));
    drop(waiting);
    assert_eq!(sum(&registry, QUEUE), 0.0);
    assert_eq!(sum(&registry, WAITS), 1.0);
    let waited = sum(&registry, "http_requests_queue_time_seconds_sum");
    assert_eq!(waited, 0.007);
    assert_eq!(sum(&registry, REJECTED), 0.0);

    // One that is granted and gives up before it has heard of it never ran.
    let mut unheard = metered.acquire("GET", 1);
    assert!(poll(&mut unheard).is_pending());
    drop(running);
    drop(unheard);
    assert_eq!(sum(&registry, QUEUE), 0.0);
    assert_eq!(sum(&registry, TIMES), 1.0);
    assert_eq!(metered.limiter().snapshot().in_use(), 0);
}

#[test]
fn time_waited_is_not_time_processed() {
    let time = ManualClock::new();
    let (registry, metered) = metered(gate(&time, 1, 5));
    let running = metered.try_acquire("GET", 1).unwrap();
    let mut waiting = metered.acquire("PUT", 1);
    assert!(poll(&mut waiting).is_pending());
    time.advance(Duration::from_millis(20));
    running.finish(Outcome::Success);
    // Granted now, noticed later: that is time of its own.
    time.advance(Duration::from_millis(5));
    let Poll::Ready(Ok(permit)) = poll(&mut waiting) else {
        panic!("it is its turn");
    };
    time.advance(Duration::from_millis(100));
    permit.into_owned().undo();
    let series = |name: &str| format!("{name}_sum{{method=\"PUT\",priority=\"normal\"}}");
    let waited = value(&registry, &series("http_requests_queue_time_seconds"));
    assert_eq!(waited, Some(0.02));
    let took = series("http_requests_task_processing_time_seconds");
    assert_eq!(value(&registry, &took), Some(0.105));
    assert_eq!(sum(&registry, ITEMS), 0.0);
}

#[test]
fn a_panic_gives_everything_back() {
    let (registry, metered) = metered(gate(&ManualClock::new(), 2, 2));
    let died = catch_unwind(AssertUnwindSafe(|| {
        let _borrowed = metered.try_acquire("GET", 1).unwrap();
        let _owned = metered.try_acquire("GET", 1).unwrap().into_owned();
        let mut waiting = metered.acquire("GET", 1);
        assert!(poll(&mut waiting).is_pending());
        assert_eq!(sum(&registry, ITEMS), 2.0);
        std::panic::panic_any("work failed");
    }));
    assert!(died.is_err());
    assert_eq!(sum(&registry, ITEMS), 0.0);
    assert_eq!(sum(&registry, QUEUE), 0.0);
    assert_eq!(sum(&registry, TIMES), 2.0);
    assert_eq!(metered.limiter().snapshot().in_use(), 0);
}

#[test]
fn an_owned_permit_keeps_its_series() {
    let (registry, metered) = metered(gate(&ManualClock::new(), 2, 2));
    let permit = metered.try_acquire("GET", 1).unwrap().into_owned();
    drop(metered);
    assert_eq!(sum(&registry, ITEMS), 1.0);
    drop(permit);
    assert_eq!(page(&registry), "# EOF\n");
}

/// A limiter that refuses for one reason.
struct Refuses(Reason, Gate<Concurrency>);

impl Limiter for Refuses {
    fn try_acquire(&self, _demand: Demand) -> Result<Permit<'_>, Denied> {
        Err(Denied::new(self.0))
    }
    fn acquire(&self, _demand: Demand) -> Acquire<'_> {
        let reason = self.0;
        Acquire::from_future(async move { Err(Denied::new(reason)) })
    }
    fn reserve(&self, _demand: Demand) -> Result<Reservation<'_>, Denied> {
        Err(Denied::new(self.0))
    }
    fn estimate(&self, _demand: Demand) -> Result<(), Denied> {
        Err(Denied::new(self.0))
    }
    fn snapshot(&self) -> Snapshot {
        self.1.snapshot()
    }
    fn close(&self) {}
    fn name(&self) -> Option<&str> {
        None
    }
    fn clock(&self) -> &Clock {
        Limiter::clock(&self.1)
    }

    fn internals(&self) -> Option<&dyn plimsoll::Internals> {
        Some(self)
    }
}

impl plimsoll::Internals for Refuses {
    fn source(&self) -> Option<&dyn Shareable> {
        LimiterExt::source(&self.1)
    }
}

#[test]
fn only_what_a_queue_refuses_has_the_words_of_queues() {
    let reasons = [
        (Reason::TimedOut, "queue_timeout"),
        (Reason::QueueFull, "max_queue_items"),
        (Reason::Evicted, "max_queue_items"),
        (Reason::Exhausted, "exhausted"),
        (Reason::TooLarge, "too_large"),
        (Reason::TooSoon, "too_soon"),
        (Reason::SoftThrottle, "soft_throttle"),
        (Reason::LockedOut, "locked_out"),
        (Reason::KeysFull, "keys_full"),
        (Reason::Saturated, "saturated"),
        (Reason::Shed, "shed"),
        (Reason::Closed, "closed"),
        (Reason::NoKey, "no_key"),
        (Reason::Unavailable, "unavailable"),
    ];
    for (reason, word) in reasons {
        let (registry, metered) = metered(Refuses(reason, gate(&ManualClock::new(), 1, 0)));
        assert!(metered.try_acquire("GET", 1).is_err());
        assert!(poll(&mut metered.acquire("GET", 1)).is_ready());
        let series = format!("{REJECTED}{{method=\"GET\",priority=\"normal\",reason=\"{word}\"}}");
        assert_eq!(value(&registry, &series), Some(2.0), "{reason}");
        assert_eq!(sum(&registry, REJECTED), 2.0);
        assert_eq!(sum(&registry, WAITS), 0.0);
    }
}

#[test]
fn several_limits_at_once_and_rates_are_counted_alike() {
    let time = ManualClock::new();
    let rate = Gate::builder(TokenBucket::per_second(2))
        .queue(Queue::fifo(1))
        .clock(time.clock())
        .build();
    let both = All::new([
        Arc::new(rate) as Arc<dyn Limiter>,
        Arc::new(gate(&time, 10, 0)),
    ]);
    let (registry, metered) = metered(both);
    let first = metered.try_acquire("GET", 1).unwrap();
    let second = metered.try_acquire("GET", 1).unwrap();
    let mut third = metered.acquire("GET", 1);
    assert!(poll(&mut third).is_pending());
    assert_eq!(sum(&registry, ITEMS), 2.0);
    assert_eq!(sum(&registry, QUEUE), 1.0);
    let bound = value(&registry, "http_requests_queue_limit_total");
    assert_eq!(bound, Some(1.0));
    time.advance(Duration::from_millis(500));
    assert!(matches!(poll(&mut third), Poll::Ready(Ok(_))));
    drop((first, second));
    assert_eq!(sum(&registry, ITEMS), 0.0);
    assert_eq!(sum(&registry, TIMES), 3.0);
}

#[test]
fn threads_are_counted_exactly_while_somebody_scrapes() {
    let gate = Gate::builder(Concurrency::new(3)).build();
    let (registry, metered) = metered(gate);
    let (registry, done) = (&registry, &AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if let Ok(permit) = metered.try_acquire("GET", 1) {
                            permit.into_owned().finish(Outcome::Success);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let running = sum(registry, ITEMS);
                assert!((0.0..=3.0).contains(&running), "{running} of 3 run");
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let snapshot = metered.limiter().snapshot();
    assert_eq!(sum(registry, ITEMS), 0.0);
    assert_eq!(sum(registry, TIMES) + sum(registry, REJECTED), 20_000.0);
    assert_eq!(snapshot.granted_total() as f64, sum(registry, TIMES));
}
