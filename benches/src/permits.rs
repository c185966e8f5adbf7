//! Permits that are taken and given back at once.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Insight, Limit, Sample};
use plimsoll::{Concurrency, Gate, Outcome};
use tokio::sync::Semaphore;

use crate::asking::{Trial, asked};
use crate::contender::Contender;
use crate::contender::Role::{Floor, Ours, Peer};

pub(crate) const CONCURRENCY: &str = "plimsoll Concurrency";
pub(crate) const ADAPTIVE: &str = "plimsoll Adaptive, a histogram of latencies";
pub(crate) const SEMAPHORE: &str = "tokio Semaphore";

const PLENTY: u32 = 1000;

pub(crate) fn contenders() -> Vec<Contender<Trial>> {
    vec![
        asked(
            Ours,
            CONCURRENCY,
            |_| Gate::new(Concurrency::new(PLENTY)),
            |gate| black_box(&gate.try_acquire(1)).is_ok(),
        ),
        asked(
            Ours,
            "plimsoll Concurrency, no totals",
            |_| {
                Gate::builder(Concurrency::new(PLENTY))
                    .totals(false)
                    .build()
            },
            |gate| black_box(&gate.try_acquire(1)).is_ok(),
        ),
        asked(
            Ours,
            ADAPTIVE,
            |_| Gate::new(Adaptive::new(Histogram::new())),
            |gate| match gate.try_acquire(1) {
                Ok(permit) => {
                    black_box(&permit);
                    permit.finish(Outcome::Success);
                    true
                }
                Err(_) => false,
            },
        ),
        asked(
            Peer,
            SEMAPHORE,
            |_| Semaphore::new(PLENTY as usize),
            |semaphore| black_box(&semaphore.try_acquire()).is_ok(),
        ),
        asked(
            Floor,
            "exchange in, subtract out",
            |_| AtomicU64::new(0),
            |word| {
                let mut old = word.load(Ordering::Acquire);
                while old < u64::from(PLENTY) {
                    let taken = word.compare_exchange_weak(
                        old,
                        old + 1,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    match taken {
                        Ok(_) => {
                            word.fetch_sub(1, Ordering::AcqRel);
                            return true;
                        }
                        Err(other) => old = other,
                    }
                }
                false
            },
        ),
        asked(
            Floor,
            "add in, subtract out, the counter read twice",
            |_| (AtomicU64::new(0), quanta::Clock::new()),
            |(word, clock)| {
                let start = clock.raw();
                let granted = word.fetch_add(1, Ordering::AcqRel) < u64::from(PLENTY);
                word.fetch_sub(1, Ordering::AcqRel);
                black_box(clock.raw() - start);
                granted
            },
        ),
        asked(
            Floor,
            "add in, subtract out",
            |_| AtomicU64::new(0),
            |word| {
                let granted = word.fetch_add(1, Ordering::AcqRel) < u64::from(PLENTY);
                word.fetch_sub(1, Ordering::AcqRel);
                granted
            },
        ),
    ]
}

/// What an algorithm that decides once in a window does for each sample, and never changes its mind: others would be
/// refused.
#[derive(Debug)]
struct Histogram {
    /// Eight for each power of two.
    counts: [u32; 512],
    samples: u32,
    most: u32,
    overloads: u32,
    /// The least latency of the bucket in which the middle of the last window lies.
    median: Duration,
}

/// A window is closed after so many.
const WINDOW: u32 = 1 << 16;

impl Histogram {
    fn new() -> Self {
        Self {
            counts: [0; 512],
            samples: 0,
            most: 0,
            overloads: 0,
            median: Duration::ZERO,
        }
    }

    fn close(&mut self) {
        let mut seen = 0;
        let middle = (0_u64..).zip(&self.counts).find(|(_, count)| {
            seen += *count;
            seen >= WINDOW / 2
        });
        let least = |bucket: u64| (8 + bucket % 8) << (bucket / 8) >> 3;
        *self = Self {
            median: Duration::from_nanos(middle.map_or(0, |(bucket, _)| least(bucket))),
            ..Self::new()
        };
    }
}

impl Limit for Histogram {
    fn limit(&self) -> u32 {
        PLENTY
    }

    fn sample(&mut self, sample: &Sample) {
        let nanos = sample.end.nanos_since(sample.start) | 8;
        let power = nanos.ilog2();
        let eighth = (nanos >> (power - 3) & 7) as usize;
        self.counts[power as usize * 8 + eighth] += 1;
        self.most = self.most.max(sample.in_flight);
        self.overloads += u32::from(sample.overload);
        self.samples += 1;
        if self.samples >= WINDOW {
            self.close();
        }
    }

    fn insight(&self) -> Insight {
        Insight {
            signal: Some(self.median),
            ..Insight::default()
        }
    }
}
