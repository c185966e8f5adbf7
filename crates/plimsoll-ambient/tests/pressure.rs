//! Against real pressure: memory that is really used, and processors that are really busy, each in a process of its
//! own.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll::{Clock, Limiter, ManualClock, Reason};
use plimsoll_ambient::{
    Amount, CpuLimiter, CpuSource, Level, MemoryLimiter, MemorySource, ProcessCpu, ProcessMemory,
    Sampler,
};

const MIB: u64 = 1 << 20;

/// Runs one of the ignored tests below alone in a new process.
fn in_a_process_of_its_own(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command
        .args([
            "--ignored",
            "--exact",
            "--test-threads=1",
            "--nocapture",
            test,
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{said}\n{complained}");
}

#[test]
fn memory_saturates_while_it_is_allocated_and_recovers_when_it_is_freed() {
    in_a_process_of_its_own("allocates_until_saturated_and_frees");
}

#[test]
fn a_busy_process_saturates() {
    in_a_process_of_its_own("spins_until_saturated");
}

#[test]
fn processor_time_saturates_while_it_is_used_and_recovers_when_it_is_not() {
    in_a_process_of_its_own("works_until_saturated_and_rests");
}

/// Large enough that the allocator asks the system for each block, and gives each back.
const BLOCK: usize = 40 << 20;

#[test]
#[ignore = "run in a process of its own, by the tests above"]
fn allocates_until_saturated_and_frees() {
    let idle = ProcessMemory::new().unwrap().read().unwrap().used;
    let sampler = Sampler::new(Clock::precise());
    let memory = MemoryLimiter::builder(Amount::Bytes(idle + 420 * MIB))
        .spike(Amount::mib(160))
        .source(ProcessMemory::new().unwrap())
        .name("memory")
        .build(&sampler)
        .unwrap();
    for round in 0..3 {
        assert_eq!(memory.level(), Level::Normal, "{round}: {memory:?}");
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let mut saturated_at = None;
        while memory.level() != Level::Hard {
            assert!(blocks.len() < 20, "{memory:?}");
            // Written to, or the system would not provide it.
            blocks.push(black_box(vec![1; BLOCK]));
            sampler.sample().unwrap();
            if memory.level() == Level::Soft {
                saturated_at.get_or_insert(blocks.len());
            }
            let denied = memory.try_acquire(1.into()).map(drop);
            assert_eq!(denied.is_err(), saturated_at.is_some());
        }
        // 260 MiB are 6.5 blocks, 420 MiB are 10.5: half a block of room for whatever else the process does.
        assert_eq!((saturated_at, blocks.len()), (Some(7), 11), "{memory:?}");
        let denied = memory.check_saturation().unwrap_err();
        assert_eq!(denied.reason(), Reason::Saturated);

        blocks.truncate(8);
        sampler.sample().unwrap();
        assert_eq!(memory.level(), Level::Soft);
        drop(blocks);
        sampler.sample().unwrap();
        assert_eq!(memory.level(), Level::Normal, "{memory:?}");
        assert!(memory.check_saturation().is_ok());
    }
}

/// Something to do.
fn work() {
    let mut sum = 0_u64;
    for number in 0..200_000_u64 {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
    }
}

/// By the real clock, on every processor there is. Others may be busy too, so little is expected: a share of 5 %.
#[test]
#[ignore = "run in a process of its own, by the tests above"]
fn spins_until_saturated() {
    let sampler = Sampler::new(Clock::precise());
    let cpu = CpuLimiter::builder(5)
        .source(ProcessCpu::new().unwrap())
        .smoothing(Duration::from_millis(20))
        .build(&sampler)
        .unwrap();
    assert!(cpu.check_saturation().is_ok());
    let done = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().unwrap().get();
    let saturated = std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        let saturated = (0..20_000).any(|_| {
            work();
            sampler.sample().unwrap();
            cpu.check_saturation().is_err()
        });
        done.store(true, Ordering::Relaxed);
        saturated
    });
    assert!(saturated, "{cpu:?}");
}

/// The processor time is real, and the time is moved by hand: it passes as fast as one that is fully at work would
/// have it, and then without any work.
#[test]
#[ignore = "run in a process of its own, by the tests above"]
fn works_until_saturated_and_rests() {
    let time = ManualClock::new();
    let sampler = Sampler::new(time.clock());
    let mut source = ProcessCpu::new().unwrap();
    let cpu = CpuLimiter::builder(60)
        .source(ProcessCpu::new().unwrap())
        .smoothing(Duration::from_millis(100))
        .build(&sampler)
        .unwrap();
    let mut before = source.read().unwrap();
    let mut steps = 0;
    while cpu.check_saturation().is_ok() {
        steps += 1;
        assert!(steps < 10_000, "{cpu:?}");
        work();
        let now = source.read().unwrap();
        time.advance((now.used - before.used).div_f64(now.cores));
        sampler.sample().unwrap();
        before = now;
    }
    // From nothing to 60 % of a full load takes 0.92 time constants.
    let passed = time.now().as_nanos() / 1_000_000;
    assert!((80..130).contains(&passed), "{passed} ms");
    time.advance(Duration::from_millis(200));
    sampler.sample().unwrap();
    assert!(cpu.check_saturation().is_ok(), "{cpu:?}");
}
