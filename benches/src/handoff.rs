//! Handing one permit on from task to task.
//!
//! 64 tasks, first come first served, a limit of one. Each holds the permit across a yield, so that
//! everybody else is waiting when it is given back and every permit goes to a task that sleeps.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use plimsoll::{Concurrency, Gate, Queue};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::asking::now;
use crate::contender::Role::{Floor, Ours, Peer};
use crate::contender::{Contender, Role, Rounds};
use crate::permits::{CONCURRENCY, SEMAPHORE};
use crate::report::Case;

pub(crate) const ONE_WORKER: &str = "handoff";
pub(crate) const TWO_WORKERS: &str = "handoff-two";

const TASKS: u32 = 64;

#[derive(Clone, Copy)]
struct Trial {
    workers: usize,
    /// Of each task.
    turns: u32,
}

fn contenders() -> Vec<Contender<Trial>> {
    let gate = || {
        Gate::builder(Concurrency::new(1))
            .queue(Queue::fifo(TASKS.into()))
            .build()
    };
    vec![
        handed_on(Ours, CONCURRENCY, gate, |gate| async {
            gate.acquire(1).await.expect("room in the queue")
        }),
        handed_on(
            Peer,
            SEMAPHORE,
            || Semaphore::new(1),
            |semaphore| async { semaphore.acquire().await.expect("open") },
        ),
        handed_on(
            Floor,
            "a queue by hand behind a lock",
            ByHand::default,
            |queue| Joined { queue, place: None },
        ),
        handed_on(Floor, "the yield alone", || (), |()| ready(())),
    ]
}

/// What a queue in safe code cannot do without: a lock to join, one to hand on, and one to read the answer. No time, no
/// cancellation, no order but that of arrival, no bound, no counts.
#[derive(Default)]
struct ByHand(Mutex<Line>);

#[derive(Default)]
struct Line {
    held: bool,
    waiting: VecDeque<usize>,
    /// The waker of each who waits; none where the permit has come.
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

struct Joined {
    queue: &'static ByHand,
    place: Option<usize>,
}

struct Held(&'static ByHand);

impl ByHand {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Joined {
    type Output = Held;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Held> {
        let queue = self.queue;
        match self.place {
            Some(place) => {
                let mut line = queue.lock();
                if line.places[place].is_some() {
                    return Poll::Pending;
                }
                line.free.push(place);
            }
            None => {
                let waker = cx.waker().clone();
                let mut line = queue.lock();
                if line.held {
                    let place = line.free.pop().unwrap_or(line.places.len());
                    if place == line.places.len() {
                        line.places.push(None);
                    }
                    line.places[place] = Some(waker);
                    line.waiting.push_back(place);
                    drop(line);
                    self.place = Some(place);
                    return Poll::Pending;
                }
                line.held = true;
            }
        }
        Poll::Ready(Held(queue))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut line = self.0.lock();
        let next = line.waiting.pop_front();
        line.held = next.is_some();
        let waker = next.and_then(|place| line.places[place].take());
        drop(line);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn handed_on<L, P, F>(
    role: Role,
    name: &'static str,
    make: impl Fn() -> L + 'static,
    take: impl Fn(&'static L) -> F + Copy + Send + 'static,
) -> Contender<Trial>
where
    L: Sync + 'static,
    P: Send,
    F: Future<Output = P> + Send,
{
    Contender::new(role, name, move |Trial { workers, turns }| {
        let runtime = runtime(workers).expect("a runtime");
        // Tasks outlive every borrow; a limiter a round is not worth counting references.
        let limiter: &'static L = Box::leak(Box::new(make()));
        let held = Arc::new(AtomicBool::new(false));
        let start = now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let held = Arc::clone(&held);
                    tokio::spawn(async move {
                        for _ in 0..turns {
                            let permit = take(limiter).await;
                            let others = held.swap(true, Ordering::Relaxed);
                            assert!(!others || role == Floor, "{name}: two at once");
                            tokio::task::yield_now().await;
                            held.store(false, Ordering::Relaxed);
                            drop(permit);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("a task that does not panic");
            }
        });
        start.elapsed().as_nanos() as f64 / f64::from(TASKS * turns)
    })
}

fn runtime(workers: usize) -> io::Result<Runtime> {
    match workers {
        1 => Builder::new_current_thread().build(),
        _ => Builder::new_multi_thread().worker_threads(workers).build(),
    }
}

/// Runs the cases whose name `wanted` accepts, with so many turns for each task.
pub(crate) fn run(rounds: &Rounds, turns: u32, wanted: impl Fn(&str) -> bool) -> Vec<Case> {
    let cases = [
        (
            ONE_WORKER,
            "Hand-off among 64 tasks, current-thread runtime",
            1,
        ),
        (TWO_WORKERS, "Hand-off among 64 tasks, two workers", 2),
    ];
    let cases = cases.into_iter().filter(|(id, ..)| wanted(id));
    cases
        .map(|(id, title, workers)| Case {
            id,
            title,
            unit: "ns",
            series: Contender::in_turns(contenders(), rounds, Trial { workers, turns }),
            compared: &[CONCURRENCY],
        })
        .collect()
}
