//! One thread for all limiters, and none when the guard is gone. Alone in its process, so that it can count.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use plimsoll::ManualClock;
use plimsoll_ambient::{Amount, CpuLimiter, CpuReading, MemoryLimiter, MemoryReading, Sampler};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// How many threads of this process are a sampler's.
fn samplers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name_of = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    tasks
        .filter_map(|task| name_of(task.unwrap()).ok())
        .filter(|name| name.trim() == "plimsoll-sample")
        .count()
}

/// A new thread gives itself its name, and one that has been waited for may be shown for a moment longer.
fn wait_until(what: impl Fn() -> bool) {
    for _ in 0..1_000_000 {
        if what() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} threads, {} of samplers", threads(), samplers());
}

#[test]
fn one_thread_samples_for_all_and_ends_with_its_guard() {
    let before = threads();
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let guard = sampler.spawn().unwrap();
    let (sender, samples) = mpsc::channel();

    let limiters: Vec<_> = (0..100)
        .map(|index| {
            let sender = sender.clone();
            let source = move || {
                sender.send(index).unwrap();
                Ok(MemoryReading {
                    used: 900,
                    total: None,
                })
            };
            let builder = MemoryLimiter::builder(Amount::Bytes(1000)).source(source);
            builder.build(&sampler).unwrap()
        })
        .collect();
    let cpu = CpuLimiter::builder(50).source(|| {
        Ok(CpuReading {
            used: Duration::ZERO,
            cores: 1.0,
        })
    });
    let _cpu = cpu.build(&sampler).unwrap();
    wait_until(|| samplers() == 1);
    assert_eq!(threads(), before + 1);

    // Whoever asks for a thread gets the one that is there.
    let second = sampler.spawn().unwrap();
    assert_eq!(threads(), before + 1);

    // Each was measured when it was built, and is again when time passes.
    assert_eq!(samples.try_iter().count(), 100);
    for _ in 0..3 {
        time.advance(Duration::from_secs(1));
        let mut sampled: Vec<usize> = samples.iter().take(100).collect();
        sampled.sort_unstable();
        assert!(sampled.into_iter().eq(0..100));
    }
    assert!(
        limiters
            .iter()
            .all(|limiter| limiter.check_saturation().is_err())
    );

    drop(guard);
    assert_eq!(samplers(), 1);
    drop(second);
    wait_until(|| threads() == before && samplers() == 0);

    // And another one, later.
    let third = sampler.spawn().unwrap();
    wait_until(|| samplers() == 1);
    drop(third);
    wait_until(|| threads() == before && samplers() == 0);
}
