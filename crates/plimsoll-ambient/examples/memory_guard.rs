//! Jobs that need memory, and a guard that lets no more of them in than there is room for.
//!
//! `cargo run --release -p plimsoll-ambient --example memory_guard`

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use plimsoll::Clock;
use plimsoll_ambient::{Amount, MemoryLimiter, MemorySource, ProcessMemory, Sampler};

const MIB: u64 = 1 << 20;
const JOB: usize = 48 << 20;

/// Something that needs memory for as long as it is there.
struct Job {
    _data: Vec<u8>,
}

impl Job {
    fn start() -> Self {
        // Written to, or the system would not provide it.
        Self {
            _data: std::hint::black_box(vec![1; JOB]),
        }
    }
}

/// Starts jobs until the guard refuses, and returns those that run.
fn fill(memory: &MemoryLimiter, sampler: &Sampler) -> Result<Vec<Job>, Box<dyn Error>> {
    let mut jobs = Vec::new();
    while memory.check_saturation().is_ok() {
        jobs.push(Job::start());
        // These jobs come faster than any timer ticks. A server would leave this to the thread.
        sampler.sample()?;
    }
    Ok(jobs)
}

fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut process = ProcessMemory::new()?;
    let idle = process.read()?.used;

    let sampler = Sampler::new(Clock::system());
    let memory = MemoryLimiter::builder(Amount::Bytes(idle + 512 * MIB))
        .spike(Amount::mib(152))
        .check_interval(Duration::from_millis(100))
        .source(process)
        .name("memory")
        .build(&sampler)?;
    // One thread measures for all limiters of this sampler, until this is dropped.
    let _sampling = sampler.spawn()?;

    for round in 1..=3 {
        let jobs = fill(&memory, &sampler)?;
        let usage = memory.usage();
        writeln!(
            out,
            "round {round}: {} jobs run, {} MiB of {} in use",
            jobs.len(),
            (usage.used - idle) / MIB,
            (usage.soft_limit - idle) / MIB,
        )?;
        if let Err(denied) = memory.check_saturation() {
            writeln!(out, "  the next one is refused: {denied}")?;
        }
        drop(jobs);
        sampler.sample()?;
        writeln!(out, "  all done: {:?} again", memory.level())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout().lock())
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn jobs_are_refused_while_memory_is_short_and_not_afterwards() {
        let mut out = Vec::new();
        super::run(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        // The soft limit of 360 MiB is reached with the eighth.
        for round in 1..=3 {
            assert!(
                out.contains(&format!("round {round}: 8 jobs run, 38")),
                "{out}"
            );
        }
        assert_eq!(
            out.matches("refused: memory: saturated").count(),
            3,
            "{out}"
        );
        assert_eq!(out.matches("all done: Normal again").count(), 3, "{out}");
    }
}
