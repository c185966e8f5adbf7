//! The state that the clones of a sampler, its futures and its thread share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use plimsoll::{Clock, Moment};

use super::guarded::Guarded;
use crate::source::{CpuSource, MemorySource};
use crate::watch::Watch;

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) inside: Mutex<Inside>,
    /// The thread, while there is one.
    pub(super) thread: Mutex<Weak<Guarded>>,
    /// The sources of limiters without one of their own, in place of the detected ones.
    pub(super) sources: Mutex<Sources>,
}

#[derive(Clone, Default)]
pub(super) struct Sources {
    pub(super) memory: Option<Arc<MakeMemory>>,
    pub(super) cpu: Option<Arc<MakeCpu>>,
}

type MakeMemory = dyn Fn() -> Box<dyn MemorySource> + Send + Sync;
type MakeCpu = dyn Fn() -> Box<dyn CpuSource> + Send + Sync;

#[derive(Default)]
pub(super) struct Inside {
    pub(super) watches: Vec<Weak<Watch>>,
    /// The wakers of drivers, which must learn of new limiters.
    pub(super) drivers: Vec<(u64, Waker)>,
    pub(super) next_driver: u64,
}

impl Shared {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            inside: Mutex::default(),
            thread: Mutex::default(),
            sources: Mutex::default(),
        }
    }

    pub(super) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limiters that are still alive. Measure them without the lock: reading files takes time.
    pub(super) fn watches(&self) -> Vec<Arc<Watch>> {
        let watches = &self.inside().watches;
        watches.iter().filter_map(Weak::upgrade).collect()
    }

    /// The shortest check interval.
    pub(super) fn shortest(&self) -> Option<u64> {
        self.watches().iter().map(|watch| watch.interval()).min()
    }

    /// Measures the limiters that are due before `next`.
    pub(super) fn sample_due(&self, next: Moment) {
        for watch in self.watches() {
            if watch.due_at() < next {
                // The limiter stores its error.
                let _stored = watch.measure();
            }
        }
    }
}
