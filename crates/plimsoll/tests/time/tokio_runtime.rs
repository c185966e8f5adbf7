//! Under tokio, whatever the runtime: nothing is lost when futures are dropped, and nobody is passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use plimsoll::{Clock, Concurrency, Demand, Gate, Permit, Queue, Quota, TokenBucket};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

fn runtimes() -> [(&'static str, Runtime); 2] {
    let current = Builder::new_current_thread().enable_all().build();
    let many = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build();
    let built = "a runtime can be had";
    [
        ("current", current.expect(built)),
        ("many", many.expect(built)),
    ]
}

fn slots(limit: u64) -> Gate<Concurrency> {
    Gate::builder(Concurrency::new(limit))
        .queue(Queue::fifo(100))
        .build()
}

async fn until_waiting(gate: &Gate<Concurrency>, count: u64) {
    while gate.snapshot().waiters() != count {
        yield_now().await;
    }
}

#[test]
fn sixty_four_tasks_pass_two_at_a_time() {
    for (name, runtime) in runtimes() {
        let gate = slots(2);
        let running = Arc::new(AtomicU64::new(0));
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..64 {
                let (gate, running) = (gate.clone(), Arc::clone(&running));
                tasks.spawn(async move {
                    for _ in 0..20 {
                        let permit = gate.acquire(1).await.unwrap();
                        assert!(running.fetch_add(1, Ordering::AcqRel) < 2);
                        yield_now().await;
                        running.fetch_sub(1, Ordering::AcqRel);
                        drop(permit);
                    }
                });
            }
            tasks.join_all().await;
        });
        let seen = gate.snapshot();
        assert_eq!((seen.in_use(), seen.waiters()), (0, 0), "{name}");
        assert_eq!(seen.granted_total(), 64 * 20, "{name}");
    }
}

#[test]
fn tasks_are_served_in_the_order_they_came() {
    for (name, runtime) in runtimes() {
        let gate = slots(1);
        let (served, order) = mpsc::channel();
        runtime.block_on(async {
            let held = gate.try_acquire(1).unwrap();
            let mut tasks = JoinSet::new();
            for number in 0..64 {
                let (same, served) = (gate.clone(), served.clone());
                tasks.spawn(async move {
                    let permit = same.acquire(1).await.unwrap();
                    served.send(number).unwrap();
                    drop(permit);
                });
                until_waiting(&gate, number + 1).await;
            }
            drop(held);
            tasks.join_all().await;
        });
        assert!(order.try_iter().eq(0..64), "{name}");
    }
}

#[test]
fn a_future_that_loses_a_select_leaves_nothing_behind() {
    for (name, runtime) in runtimes() {
        runtime.block_on(async {
            let gate = slots(1);
            let held = gate.try_acquire(1).unwrap();
            for _ in 0..50 {
                tokio::select! {
                    biased;
                    _ = gate.acquire(1) => panic!("it is taken"),
                    () = yield_now() => {}
                }
            }
            let seen = gate.snapshot();
            assert_eq!((seen.waiters(), seen.cancelled_total()), (0, 50), "{name}");
            assert_eq!(seen.in_use(), 1, "{name}");
            drop(held);
            assert!(gate.try_acquire(1).is_ok(), "{name}");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_times_out_leaves_nothing_behind() {
    let gate = slots(1);
    let held = gate.try_acquire(1).unwrap();
    let minute = Duration::from_secs(60);
    let waited = tokio::time::timeout(minute, gate.acquire(1)).await;
    assert!(waited.is_err());
    assert_eq!(gate.snapshot().waiters(), 0);
    drop(held);
    assert!(tokio::time::timeout(minute, gate.acquire(1)).await.is_ok());
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn tasks_that_are_aborted_give_everything_back() {
    for (name, runtime) in runtimes() {
        let gate = slots(2);
        runtime.block_on(async {
            // Some hold, some wait, and some are handed a permit as they are aborted.
            let mut tasks = JoinSet::new();
            for _ in 0..64 {
                let gate = gate.clone();
                tasks.spawn(async move {
                    loop {
                        let permit = gate.acquire(1).await;
                        yield_now().await;
                        drop(permit);
                    }
                });
            }
            for _ in 0..100 {
                yield_now().await;
            }
            tasks.shutdown().await;
        });
        let seen = gate.snapshot();
        assert_eq!(
            (seen.in_use(), seen.waiters(), seen.queued()),
            (0, 0, 0),
            "{name}"
        );
        assert!(gate.try_acquire(2).is_ok(), "{name}");
    }
}

#[test]
fn a_release_in_one_runtime_wakes_a_waiter_in_another() {
    let gate = slots(1);
    let [(_, here), (_, there)] = runtimes();
    for _ in 0..20 {
        let held = here.block_on(gate.acquire(1)).unwrap().into_owned();
        let waits = there.spawn({
            let gate = gate.clone();
            async move { gate.acquire(1).await.map(Permit::into_owned) }
        });
        here.block_on(until_waiting(&gate, 1));
        here.block_on(async move { drop(held) });
        drop(there.block_on(waits).unwrap().unwrap());
    }
    assert_eq!(gate.snapshot().in_use(), 0);
}

#[test]
fn two_runtimes_share_a_rate() {
    let every = Duration::from_millis(1);
    let gate = Gate::builder(TokenBucket::greedy(Quota::new(1, every)))
        .queue(Queue::fifo(10))
        .build();
    // As the gate itself reads it: late by up to a tick.
    let start = Clock::system().now();
    let runtimes = runtimes();
    let tasks = [0, 1, 0, 1, 0, 1].map(|which: usize| {
        let gate = gate.clone();
        let task = async move {
            gate.acquire(Demand::ONE)
                .await
                .map(|permit| permit.granted_at())
        };
        runtimes[which].1.spawn(task)
    });
    let mut moments = tasks.map(|task| runtimes[0].1.block_on(task).unwrap().unwrap());
    moments.sort_unstable();
    for (moment, periods) in moments.into_iter().zip(0..) {
        assert!(moment >= start.plus(every * periods), "{periods}");
    }
}
