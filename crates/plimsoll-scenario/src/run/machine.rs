//! Limits on memory and processor time of a simulated machine, whose usage the scenario sets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll::{Clock, InvalidLimit, Limiter, Moment};
use plimsoll_ambient::{
    Amount, BuildError, CpuLimiter, CpuReading, MemoryLimiter, MemoryReading, Sampler,
};
use plimsoll_spec::{InvalidSpec, Kind, Memory, Queue};

use super::limiters::{Sample, Subject, Unbuilt};

/// The memory of the machine, which is 100 %.
const TOTAL: u64 = 1 << 40;

/// The usage of the machine.
#[derive(Default)]
struct Used {
    memory: u64,
    /// The processor time so far, and the moment until which it was counted.
    cpu: Duration,
    until: Moment,
}

type Shared = Arc<Mutex<Used>>;

fn with<T>(used: &Shared, with: impl FnOnce(&mut Used) -> T) -> T {
    with(&mut used.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Builds a limit on memory or on processor time. `None` for other kinds.
pub(crate) fn build(
    spec: &plimsoll_spec::Limiter,
    clock: &Clock,
) -> Option<Result<Subject, Unbuilt>> {
    let sampler = Sampler::new(clock.clone());
    let used = Shared::default();
    with(&used, |used| used.until = clock.now());
    let fed = Arc::clone(&used);
    sampler.memory_source(move || {
        Ok(MemoryReading {
            used: with(&fed, |used| used.memory),
            total: Some(TOTAL),
        })
    });
    let fed = Arc::clone(&used);
    sampler.cpu_source(move || {
        Ok(CpuReading {
            used: with(&fed, |used| used.cpu),
            cores: 1.0,
        })
    });
    let built = limiter(spec, &sampler)?;
    Some(built.map(|limiter| Subject {
        sample: Some(sample(used, sampler)),
        ..Subject::only(limiter, &spec.kind)
    }))
}

/// Sets the usage, and measures it.
fn sample(used: Shared, sampler: Sampler) -> Box<Sample> {
    Box::new(move |now_used| {
        let now = sampler.clock().now();
        with(&used, |used| {
            used.memory = bytes(now_used);
            let percent = u32::from(now_used.percent().unwrap_or(0));
            used.cpu += now.since(used.until) * percent / 100;
            used.until = now;
        });
        // The source never fails.
        let _ = sampler.sample();
    })
}

fn limiter(
    spec: &plimsoll_spec::Limiter,
    sampler: &Sampler,
) -> Option<Result<Arc<dyn Limiter>, Unbuilt>> {
    let common = &spec.common;
    let queue = common.queue.as_ref().map(Queue::build);
    let name = common.name.as_deref();
    let built = match &spec.kind {
        Kind::Memory {
            hard_limit,
            spike,
            check_interval,
        } => {
            let mut memory = MemoryLimiter::builder(amount(hard_limit));
            memory = memory.check_interval((*check_interval).into());
            memory = spike
                .iter()
                .fold(memory, |it, spike| it.spike(amount(spike)));
            memory = queue.into_iter().fold(memory, |it, queue| it.queue(queue));
            memory = name.into_iter().fold(memory, |it, name| it.name(name));
            let memory = memory.build(sampler);
            memory.map(|memory| Arc::new(memory) as Arc<dyn Limiter>)
        }
        Kind::Cpu {
            threshold,
            smoothing,
            check_interval,
        } => {
            let percent = u8::try_from(threshold.0).unwrap_or(100);
            let mut cpu = CpuLimiter::builder(percent).smoothing((*smoothing).into());
            cpu = cpu.check_interval((*check_interval).into());
            cpu = queue.into_iter().fold(cpu, |it, queue| it.queue(queue));
            cpu = name.into_iter().fold(cpu, |it, name| it.name(name));
            let cpu = cpu.build(sampler);
            cpu.map(|cpu| Arc::new(cpu) as Arc<dyn Limiter>)
        }
        _ => return None,
    };
    Some(built.map_err(|error| {
        Unbuilt::Invalid(match error {
            BuildError::Invalid(invalid) => invalid.into(),
            other => InvalidSpec::of(
                "kind",
                InvalidLimit::new("kind", other, "what can be measured"),
            ),
        })
    }))
}

fn amount(memory: &Memory) -> Amount {
    match memory.percent() {
        Some(percent) => Amount::Percent(percent),
        None => Amount::Bytes(memory.bytes().unwrap_or(u64::MAX)),
    }
}

/// Converts an amount of memory to bytes.
fn bytes(memory: &Memory) -> u64 {
    match memory.percent() {
        Some(percent) => TOTAL * u64::from(percent) / 100,
        None => memory.bytes().unwrap_or(u64::MAX),
    }
}
