//! Many connections on one budget.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::moody::{Mood, Moody};
use crate::poll::poll;
use crate::queued::queued;
use crate::settle::settle;
use plimsoll::{Gate, ManualClock, Queue, TokenBucket};
use plimsoll_tokio::{Budget, Throttled};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

const QUANTUM: usize = 500;
const SIZES: [usize; 6] = [1, 10, 333, 1000, 5000, 100_000];

/// Connections with buffers of all sizes that read or write all the time, for so many seconds; how much each moved.
async fn share(sizes: &[usize], seconds: usize) -> Vec<usize> {
    let time = ManualClock::new();
    let bucket = TokenBucket::per_second(10_000).burst(1000).initial(0);
    let gate = queued(bucket, &time);
    let budget = Budget::new(gate.clone()).quantum(500);
    let moved: Vec<_> = sizes
        .iter()
        .map(|_| Arc::new(AtomicUsize::new(0)))
        .collect();
    let mut tasks = Vec::new();
    for (number, (size, moved)) in sizes.iter().zip(&moved).enumerate() {
        let (mut buffer, moved) = (vec![0; *size], Arc::clone(moved));
        let mut reader = Throttled::new(tokio::io::repeat(1)).reads(&budget);
        let mut writer = Throttled::new(tokio::io::sink()).writes(&budget);
        tasks.push(tokio::spawn(async move {
            loop {
                let count = if number % 2 == 0 {
                    reader.read(&mut buffer).await
                } else {
                    writer.write(&buffer).await
                };
                moved.fetch_add(count.expect("it never fails"), Ordering::Relaxed);
            }
        }));
    }
    settle().await;
    for _ in 0..seconds * 100 {
        time.advance(Duration::from_millis(10));
        settle().await;
    }
    let moved: Vec<_> = moved
        .iter()
        .map(|moved| moved.load(Ordering::Relaxed))
        .collect();
    for task in tasks {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(gate.snapshot().waiters(), 0);
    moved
}

#[tokio::test]
async fn buffers_of_all_sizes_get_equal_shares_and_the_rate_is_exact() {
    let seconds = 12;
    let moved = share(&SIZES, seconds).await;
    let (least, most) = (moved.iter().min().unwrap(), moved.iter().max().unwrap());
    assert!(most - least <= QUANTUM, "{moved:?}");
    let sum: usize = moved.iter().sum();
    let due = 10_000 * seconds;
    // What has come since the last quantum is on its way to the next one.
    assert!((due - QUANTUM..=due).contains(&sum), "{sum} of {due}");
}

#[tokio::test]
async fn one_alone_gets_everything() {
    assert!(share(&[64], 2).await[0] >= 20_000 - QUANTUM);
}

#[tokio::test]
async fn who_has_nothing_to_move_takes_nothing_from_others() {
    let time = ManualClock::new();
    let gate = queued(TokenBucket::per_second(1000), &time);
    let budget = Budget::new(gate.clone()).quantum(100);
    let idle: Vec<_> = (0..50)
        .map(|_| {
            let (near, far) = tokio::io::duplex(16);
            let mut near = Throttled::new(near).reads(&budget);
            let task = tokio::spawn(async move { near.read(&mut [0; 64]).await });
            (far, task)
        })
        .collect();
    settle().await;
    assert_eq!(gate.snapshot().available(), 1000);
    let mut busy = Throttled::new(tokio::io::sink()).writes(&budget);
    let mut write = pin!(busy.write_all(&[0; 1000]));
    assert!(poll(&mut write).is_ready());
    // When something comes it is read as soon as the rate allows.
    let mut waits = Vec::new();
    for (mut far, task) in idle {
        far.write_all(b"x").await.unwrap();
        waits.push((far, task));
    }
    settle().await;
    assert_eq!(gate.snapshot().waiters(), 50);
    // The first is given a quantum, reads one byte, and leaves the rest to the next.
    time.advance(Duration::from_millis(99));
    for _ in 0..50 {
        time.advance(Duration::from_millis(1));
        settle().await;
    }
    for (_far, task) in waits {
        assert_eq!(task.await.unwrap().unwrap(), 1);
    }
    assert_eq!(gate.snapshot().available(), 149 - 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_forgotten_between_threads() {
    const SIZE: usize = 200_000;
    let bucket = TokenBucket::per_second(50_000_000).burst(20_000);
    let gate = Gate::builder(bucket).queue(Queue::fifo(u64::MAX)).build();
    let all = Budget::new(gate.clone()).quantum(3000);
    let tasks = [1_usize, 2, 3, 4, 5, 6].map(|number| {
        let (near, far) = tokio::io::duplex(1000 * number);
        let mut near = Throttled::new(near).writes(&all);
        let mut far = Throttled::new(far).reads(&all);
        tokio::spawn(async move {
            near.write_all(&[0; SIZE]).await?;
            near.shutdown().await
        });
        tokio::spawn(async move {
            let (mut buffer, mut sum) = (vec![0; 700 * number], 0);
            loop {
                match far.read(&mut buffer).await {
                    Ok(0) | Err(_) => return sum,
                    Ok(count) => sum += count,
                }
            }
        })
    });
    for task in tasks {
        assert_eq!(task.await.unwrap(), SIZE);
    }
    assert_eq!(gate.snapshot().waiters(), 0);
}

#[test]
fn a_pause_makes_a_connection_modest() {
    let time = ManualClock::new();
    let gate = queued(TokenBucket::per_second(1000), &time);
    let budget = Budget::new(gate.clone()).quantum(100);
    let mut io = Throttled::new(Moody::new([])).writes(&budget);
    let mut asked = Vec::new();
    let mut ask = |pause| {
        time.advance(Duration::from_millis(pause));
        gate.take_up_to(1000).forget();
        let mut write = Box::pin(io.write_all(&[0; 10]));
        assert!(poll(&mut write).is_pending());
        asked.push(gate.snapshot().queued());
        time.advance(Duration::from_millis(asked[asked.len() - 1]));
        assert!(poll(&mut write).is_ready());
        drop(write);
        // Of what was given for now nothing is kept.
        assert!(poll(&mut pin!(io.flush())).is_ready());
    };
    ask(0);
    ask(0);
    ask(500);
    ask(5);
    ask(11);
    assert_eq!(asked, [100, 100, 10, 100, 10]);
}

#[derive(Clone, Debug)]
enum Step {
    Open(Vec<u8>),
    /// Polls a connection with a buffer of a size.
    Move(usize, usize),
    Shut(usize),
    Drop(usize),
    Advance(u64),
}

fn mood(code: u8) -> Mood {
    match code % 4 {
        0 => Mood::Pending,
        1 => Mood::Fail,
        _ => Mood::Move(usize::from(code)),
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..8).prop_map(Step::Open),
        8 => (any::<usize>(), 0..200_usize).prop_map(|(one, size)| Step::Move(one, size)),
        1 => any::<usize>().prop_map(Step::Shut),
        2 => any::<usize>().prop_map(Step::Drop),
        2 => (0..50_u64).prop_map(Step::Advance),
    ]
}

fn run(steps: &[Step], moving: bool) -> Result<(), TestCaseError> {
    let time = ManualClock::new();
    let (one, two) = (
        queued(TokenBucket::per_second(1000).burst(300), &time),
        queued(TokenBucket::per_second(700), &time),
    );
    let (narrow, wide) = (
        Budget::new(one.clone()).quantum(40),
        Budget::new(two.clone()).quantum(64),
    );
    let mut open: Vec<Throttled<Moody>> = Vec::new();
    let mut moved = 0;
    for step in steps {
        let count = open.len();
        match step {
            Step::Open(moods) => open.push(
                Throttled::new(Moody::new(moods.iter().copied().map(mood)))
                    .writes(&narrow)
                    .writes(&wide)
                    .reads(&wide)
                    .reads(&narrow),
            ),
            Step::Advance(millis) if moving => time.advance(Duration::from_millis(*millis)),
            Step::Advance(_) => {}
            _ if count == 0 => {}
            Step::Move(index, size) => {
                let io = &mut open[index % count];
                let mut buffer = vec![0; *size];
                let polled = if index % 2 == 0 {
                    poll(&mut pin!(io.read(&mut buffer)))
                } else {
                    poll(&mut pin!(io.write(&buffer)))
                };
                if let Poll::Ready(Ok(count)) = polled {
                    moved += count as u64;
                }
            }
            Step::Shut(index) => {
                let mut cx = Context::from_waker(Waker::noop());
                let shut = Pin::new(&mut open[index % count]).poll_shutdown(&mut cx);
                prop_assert!(shut.is_ready());
            }
            Step::Drop(index) => drop(open.swap_remove(index % count)),
        }
        let elapsed = time.now().as_nanos() / 1_000_000;
        prop_assert!(moved <= 300 + elapsed, "{moved} bytes in {elapsed} ms");
        prop_assert!(moved <= 700 + elapsed * 7 / 10);
    }
    drop(open);
    prop_assert_eq!((one.snapshot().waiters(), two.snapshot().waiters()), (0, 0));
    if !moving {
        let left = (one.snapshot().available(), two.snapshot().available());
        prop_assert_eq!(
            left,
            (300 - moved, 700 - moved),
            "what was not moved is there again"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_dropped_whenever_only_what_was_moved_is_gone(
        steps in prop::collection::vec(step(), 1..100),
    ) {
        run(&steps, false)?;
        run(&steps, true)?;
    }
}
