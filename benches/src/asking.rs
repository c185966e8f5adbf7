//! Asking a limiter over and over, and how long once takes.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::contender::{Contender, Role};

/// What a limiter is built to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Granted,
    Denied,
}

/// How a contender is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) answer: Answer,
    pub(crate) threads: usize,
    pub(crate) span: Duration,
}

/// A limiter that `make` builds and `ask` asks for one. `ask` says whether it was granted.
///
/// A sample is the nanoseconds for each time it was asked; with several threads, wall time over the
/// times of all.
pub(crate) fn asked<L: Sync>(
    role: Role,
    name: &'static str,
    make: impl Fn(Answer) -> L + 'static,
    ask: impl Fn(&L) -> bool + Sync + 'static,
) -> Contender<Trial> {
    let run = move |trial: Trial| {
        let limiter = make(trial.answer);
        let count = if trial.threads == 1 {
            warm_up(&limiter, &ask);
            ask_for(trial.span, &limiter, &ask)
        } else {
            together(trial, &limiter, &ask)
        };
        let expected = match trial.answer {
            Answer::Granted => count.asked,
            Answer::Denied => 0,
        };
        if count.granted != expected {
            let granted = format!("{} of {} granted", count.granted, count.asked);
            assert!(role != Role::Ours, "{name}: {granted} in {trial:?}");
            eprintln!("{name}: {granted}, a trial that does not count: {trial:?}");
            return None;
        }
        Some(count.nanos())
    };
    Contender::new(role, name, move |trial: Trial| {
        undisturbed(10, trial.threads, || run(trial))
    })
}

/// Repeats a trial during which somebody else had the processor or an answer was wrong, some times. There
/// may be no sample then: threads that take turns on one processor do not meet.
pub(crate) fn undisturbed(tries: u32, threads: usize, run: impl Fn() -> Option<f64>) -> f64 {
    const ENOUGH: f64 = 0.97;
    let mut best = (0.9, f64::NAN);
    for _ in 0..tries {
        let (wall, cpu) = (now(), process_time());
        let Some(nanos) = run() else { continue };
        let (wall, cpu) = (now() - wall, process_time() - cpu);
        let share = cpu.as_secs_f64() / (wall.as_secs_f64() * threads as f64);
        if share > best.0 {
            best = (share, nanos);
        }
        if share >= ENOUGH {
            break;
        }
    }
    best.1
}

/// How often a limiter was asked, and how long that took.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

fn ask_for<L>(span: Duration, limiter: &L, ask: impl Fn(&L) -> bool) -> Count {
    const BATCH: u64 = 1024;
    let start = now();
    let (mut asked, mut granted) = (0, 0);
    loop {
        for _ in 0..BATCH {
            granted += u64::from(ask(black_box(limiter)));
        }
        asked += BATCH;
        let end = now();
        if end - start >= span {
            return Count {
                asked,
                granted,
                start,
                end,
            };
        }
    }
}

/// Starts whatever clock the limiter reads, and warms the caches.
fn warm_up<L>(limiter: &L, ask: impl Fn(&L) -> bool) {
    ask_for(Duration::from_millis(2), limiter, ask);
}

/// All threads at once on one limiter.
fn together<L: Sync>(trial: Trial, limiter: &L, ask: &(impl Fn(&L) -> bool + Sync)) -> Count {
    let barrier = Barrier::new(trial.threads);
    let run = || {
        warm_up(limiter, ask);
        barrier.wait();
        ask_for(trial.span, limiter, ask)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..trial.threads).map(|_| scope.spawn(run)).collect();
        let counts = threads
            .into_iter()
            .map(|thread| thread.join().expect("a limiter that does not panic"));
        counts.reduce(Count::both)
    })
    .expect("at least one thread")
}

impl Count {
    /// Wall time over the times it was asked.
    pub(crate) fn nanos(&self) -> f64 {
        (self.end - self.start).as_nanos() as f64 / self.asked as f64
    }

    pub(crate) fn both(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            granted: self.granted + other.granted,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring time is the point")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The processor time all threads of this process have used.
pub(crate) fn process_time() -> Duration {
    processor_time(ClockId::ProcessCPUTime)
}

/// The processor time this thread has used.
pub(crate) fn thread_time() -> Duration {
    processor_time(ClockId::ThreadCPUTime)
}

fn processor_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
