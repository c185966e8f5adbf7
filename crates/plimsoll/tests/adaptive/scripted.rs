use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::adaptive::{Adaptive, Insight, Limit, Load, Sample};
use plimsoll::{Gate, GateBuilder, ManualClock, Moment, Permit, Queue};

/// An algorithm that does as the test says and remembers what it is told.
#[derive(Clone, Debug)]
pub(crate) struct Scripted(pub(crate) Arc<Script>);

#[derive(Debug)]
pub(crate) struct Script {
    /// What it answers from the next sample or tick on.
    next: AtomicU64,
    pub(crate) bound: Mutex<Option<u64>>,
    every: Option<Duration>,
    samples: Mutex<Vec<Sample>>,
    ticks: Mutex<Vec<Load>>,
    pub(crate) panics: AtomicU64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scripted {
    pub(crate) fn new(limit: u64) -> Self {
        Self::ticking(limit, None)
    }

    pub(crate) fn ticking(limit: u64, every: Option<Duration>) -> Self {
        Self(Arc::new(Script {
            next: AtomicU64::new(limit),
            bound: Mutex::new(None),
            every,
            samples: Mutex::default(),
            ticks: Mutex::default(),
            panics: AtomicU64::new(0),
        }))
    }

    /// What it answers when it is next asked.
    pub(crate) fn say(&self, limit: u64) {
        self.0.next.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) -> Vec<Sample> {
        std::mem::take(&mut *locked(&self.0.samples))
    }

    pub(crate) fn ticks(&self) -> Vec<(u64, u64, u64)> {
        let ticks = std::mem::take(&mut *locked(&self.0.ticks));
        let tick = |load: &Load| (millis(load.now), load.in_flight, load.queued);
        ticks.iter().map(tick).collect()
    }

    pub(crate) fn gate(&self, time: &ManualClock) -> Gate<Adaptive<Self>> {
        self.builder(time).build()
    }

    pub(crate) fn builder(&self, time: &ManualClock) -> GateBuilder<Adaptive<Self>> {
        Gate::builder(Adaptive::new(self.clone()))
            .queue(Queue::fifo(20))
            .clock(time.clock())
    }
}

impl Limit for Scripted {
    fn limit(&self) -> u64 {
        self.0.next.load(Ordering::Relaxed)
    }

    fn sample(&mut self, sample: &Sample) {
        let panics = self.0.panics.load(Ordering::Relaxed);
        if panics > 0 {
            self.0.panics.store(panics - 1, Ordering::Relaxed);
            panic!("an algorithm with a bug");
        }
        locked(&self.0.samples).push(*sample);
    }

    fn tick_every(&self) -> Option<Duration> {
        self.0.every
    }

    fn tick(&mut self, load: Load) {
        locked(&self.0.ticks).push(load);
    }

    fn queue_bound(&self) -> Option<u64> {
        *locked(&self.0.bound)
    }

    fn insight(&self) -> Insight {
        Insight::new("as told")
    }
}

pub(crate) fn millis(moment: Moment) -> u64 {
    moment.as_nanos() / 1_000_000
}

pub(crate) fn take<L: Limit>(gate: &Gate<Adaptive<L>>, count: usize) -> Vec<Permit<'_>> {
    (0..count)
        .map(|_| gate.try_acquire(1).expect("there is room"))
        .collect()
}
