//! The examples of pipelines do what they say. Their time is moved by hand.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

#[path = "../../examples/limit_batch.rs"]
mod limit_batch;
#[path = "../../examples/split_batch.rs"]
mod split_batch;
#[path = "../../examples/stream_receiver.rs"]
mod stream_receiver;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use limit_batch::Packed;
use plimsoll::{Concurrency, Denied, Gate, ManualClock, Queue, Reason};
use plimsoll_kinds::{Provider, Resource, Weight};
use split_batch::{Line, Tenants};
use stream_receiver::Frame;

fn seen(limits: &Provider, weight: Weight) -> (u64, u64) {
    let limiter = limits.limiters(weight).next().unwrap();
    let snapshot = limiter.snapshot();
    (snapshot.available(), snapshot.in_use())
}

#[test]
fn the_examples_run() {
    limit_batch::main().unwrap();
    split_batch::main().unwrap();
    stream_receiver::main().unwrap();
}

#[test]
fn a_batch_is_limited_by_items_and_bytes_before_it_is_unpacked() {
    const ITEMS: Weight = Weight::REQUEST_ITEMS;
    const MEMORY: Weight = Weight::MEMORY_SIZE;
    let time = ManualClock::new();
    let limits = limit_batch::limits(&time.clock()).unwrap();
    let batch = |items, bytes| Packed { items, bytes };
    let refused = |batch: Packed| {
        let answer = limit_batch::consume(&limits, &batch, |_| -> Result<(), _> {
            panic!("it must not be unpacked")
        });
        let denied = answer.unwrap_err().downcast::<Denied>().unwrap();
        (denied.reason(), denied.limiter().map(str::to_owned))
    };
    let inside = limit_batch::consume(&limits, &batch(60, 40_000), |unpacked| {
        assert_eq!(unpacked.len(), 40_000);
        // While it is used there is no room for another of its size, and its items are not charged.
        let memory = Some("memory".to_owned());
        assert_eq!(refused(batch(1, 40_000)), (Reason::Exhausted, memory));
        Ok((seen(&limits, ITEMS).0, seen(&limits, MEMORY).1))
    });
    assert_eq!(inside.unwrap(), (40, 40_000));
    assert_eq!((seen(&limits, ITEMS).0, seen(&limits, MEMORY).1), (40, 0));

    let too_large = (Reason::TooLarge, Some("memory".to_owned()));
    assert_eq!(refused(batch(1, 70_000)), too_large);
    let late = (Reason::TimedOut, Some("items".to_owned()));
    assert_eq!(refused(batch(51, 10)), late, "110 ms are too long");
    assert_eq!((seen(&limits, ITEMS).0, seen(&limits, MEMORY).1), (40, 0));
}

#[test]
fn a_batch_is_split_by_tenant_and_what_does_not_fit_is_dropped_for_free() {
    let time = ManualClock::new();
    let tenants = Tenants::new(&[("red", 4), ("blue", 2)], &time.clock()).unwrap();
    let lines = |counts: &[(&'static str, usize)]| -> Vec<Line> {
        let one = |tenant| Line { tenant, text: "" };
        let lines = counts
            .iter()
            .flat_map(|(tenant, count)| vec![one(*tenant); *count]);
        lines.collect()
    };
    let kept = |batch: &[(&'static str, usize)]| -> Vec<&str> {
        let (kept, held) = tenants.keep_fitting(lines(batch)).unwrap();
        drop(held);
        kept.iter().map(|line| line.tenant).collect()
    };
    let left = |tenant| seen(tenants.of(tenant), Weight::REQUEST_ITEMS).0;

    assert_eq!(kept(&[("red", 3), ("blue", 3)]), ["red", "red", "red"]);
    assert_eq!(
        (left("red"), left("blue")),
        (1, 2),
        "more than blue may ever have"
    );
    assert_eq!(
        kept(&[("blue", 1), ("red", 2), ("green", 1)]),
        ["blue", "green"]
    );
    assert_eq!(
        (left("red"), left("blue")),
        (1, 1),
        "cancelled: red has paid nothing"
    );
    assert_eq!(
        kept(&[("red", 1), ("grey", 1)]),
        ["red"],
        "green and grey share"
    );
    time.advance(Duration::from_secs(1));
    assert_eq!(kept(&[("red", 4), ("blue", 2), ("grey", 1)]).len(), 7);
}

#[test]
fn a_stream_stalls_while_its_work_holds_the_memory() {
    let gate = Gate::builder(Concurrency::new(10))
        .queue(Queue::fifo(10))
        .name("memory");
    let memory = Resource::from(gate.build());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (read, reading) = mpsc::channel();
    let finish: Vec<_> = (0..3)
        .map(|_| tokio::sync::oneshot::channel::<bool>())
        .collect();
    let (ends, mut results): (Vec<_>, Vec<_>) = finish.into_iter().unzip();
    results.reverse();
    let results = Mutex::new(results);
    let wait = Duration::from_secs(3600);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let frames = (0..3_u8).map(|number| {
                read.send(number).unwrap();
                Frame(vec![number; 5])
            });
            stream_receiver::receive(frames, &memory, wait, &runtime, |_frame| {
                let result = results.lock().unwrap().pop().unwrap();
                async move { result.await.unwrap() }
            })
        });
        // The third frame is there, and there is no room to work on it: nothing more is read.
        assert_eq!([(); 3].map(|()| reading.recv().unwrap()), [0, 1, 2]);
        while memory.snapshot().waiters() == 0 {
            thread::yield_now();
        }
        assert_eq!(memory.snapshot().in_use(), 10);
        let mut ends = ends.into_iter();
        ends.next().unwrap().send(true).unwrap();
        let tasks = receiver.join().unwrap().unwrap();
        assert_eq!(tasks.len(), 3);
        // One fails, one is dropped and panics: both give back.
        ends.next().unwrap().send(false).unwrap();
        drop(ends);
        let failed = tasks
            .into_iter()
            .map(|task| runtime.block_on(task).is_err());
        assert_eq!(failed.collect::<Vec<_>>(), [false, false, true]);
    });
    assert_eq!(memory.snapshot().in_use(), 0);
}

#[test]
fn a_stream_ends_when_there_is_no_room_even_to_wait() {
    let gate = Gate::builder(Concurrency::new(5)).name("memory");
    let memory = Resource::from(gate.build());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stop = Arc::new(tokio::sync::Notify::new());
    let frames = [5, 1].map(|size| Frame(vec![0; size]));
    let ended = stream_receiver::receive(frames, &memory, Duration::ZERO, &runtime, |_frame| {
        let stop = Arc::clone(&stop);
        async move {
            stop.notified().await;
            true
        }
    });
    let denied = ended.unwrap_err();
    assert_eq!(
        (denied.reason(), denied.limiter()),
        (Reason::Saturated, Some("memory"))
    );
    stop.notify_one();
}
