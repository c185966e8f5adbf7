//! Permits that are taken and given back at once.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::adaptive::{Adaptive, Verdict};
use plimsoll::{Concurrency, Gate, Outcome};
use tokio::sync::Semaphore;

use crate::asking::{Trial, asked};
use crate::contender::Contender;
use crate::contender::Role::{Floor, Ours, Peer};
use crate::floors::{Counts, swap_in};

pub(crate) const CONCURRENCY: &str = "plimsoll Concurrency";
pub(crate) const ADAPTIVE: &str = "plimsoll Adaptive, Verdict";
pub(crate) const SEMAPHORE: &str = "tokio Semaphore";

const PLENTY: u64 = 1000;

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
            |_| Gate::new(Adaptive::new(verdict())),
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
            |_| Semaphore::new(usize::try_from(PLENTY).unwrap_or(usize::MAX)),
            |semaphore| black_box(&semaphore.try_acquire()).is_ok(),
        ),
        asked(
            Floor,
            "exchange in, subtract out",
            |_| AtomicU64::new(0),
            |word| {
                let granted = take(word);
                word.fetch_sub(u64::from(granted), Ordering::AcqRel);
                granted
            },
        ),
        asked(
            Floor,
            "exchange in, subtract out, held and counted",
            |_| (AtomicU64::new(0), Counts::default()),
            |(word, counts)| {
                let held = take(word).then(|| Held {
                    limiter: word,
                    cost: 1,
                    _taken: 0,
                    _flags: [7, 0, 1, 0],
                });
                counts.add(0);
                black_box(&held).is_some()
            },
        ),
        asked(
            Floor,
            "add in, subtract out, the counter read twice",
            |_| (AtomicU64::new(0), quanta::Clock::new()),
            |(word, clock)| {
                let start = clock.raw();
                let granted = word.fetch_add(1, Ordering::AcqRel) < PLENTY;
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
                let granted = word.fetch_add(1, Ordering::AcqRel) < PLENTY;
                word.fetch_sub(1, Ordering::AcqRel);
                granted
            },
        ),
    ]
}

fn take(word: &AtomicU64) -> bool {
    swap_in(word, |old| (old < PLENTY).then_some(old + 1))
}

/// As much as a permit of ours says. It returns what it took to a limiter of any kind.
struct Held<'a> {
    limiter: &'a dyn Returned,
    cost: u64,
    _taken: u64,
    _flags: [u8; 4],
}

trait Returned {
    fn give_back(&self, cost: u64);
}

impl Returned for AtomicU64 {
    fn give_back(&self, cost: u64) {
        self.fetch_sub(cost, Ordering::AcqRel);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.limiter.give_back(self.cost);
    }
}

/// Our own algorithm, with no room to change its mind: others would be refused.
fn verdict() -> Verdict {
    let fixed = Verdict::builder().min(PLENTY).initial(PLENTY).max(PLENTY);
    match fixed.build() {
        Ok(verdict) => verdict,
        Err(invalid) => unreachable!("{invalid}"),
    }
}
