//! Where everything is counted: a cell for each method and priority, made beforehand.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::{Priority, Reason};

use crate::Method;
use crate::histogram::{Counted, Histogram};

/// The words for why somebody was refused.
const CAUSES: [&str; 2] = ["max_queue_items", "queue_timeout"];

/// Everything that is counted about one limiter.
#[derive(Debug)]
pub(crate) struct Cells([[Cell; Priority::ALL.len()]; Method::ALL.len()]);

/// What is counted about requests of one method and priority.
#[derive(Debug)]
pub(crate) struct Cell {
    running: AtomicU64,
    waiting: AtomicU64,
    rejected: [AtomicU64; CAUSES.len()],
    processing_time: Histogram<1_000_000>,
    queue_time: Histogram<500_000>,
}

/// What a cell has counted.
pub(crate) struct Reading {
    pub(crate) method: &'static str,
    pub(crate) priority: &'static str,
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    /// By their words.
    pub(crate) rejected: [(&'static str, u64); CAUSES.len()],
    pub(crate) processing_time: Counted,
    pub(crate) queue_time: Counted,
}

impl Cells {
    pub(crate) fn new() -> Self {
        Self(array::from_fn(|_| array::from_fn(|_| Cell::new())))
    }

    pub(crate) fn of(&self, method: Method, priority: Priority) -> &Cell {
        &self.0[method as usize][priority as usize]
    }

    /// What was counted where anything was.
    pub(crate) fn read(&self) -> Vec<Reading> {
        let each = Method::ALL.into_iter().flat_map(|method| {
            // The highest class first.
            let classes = Priority::ALL.into_iter().rev();
            classes.map(move |priority| self.of(method, priority).read(method, priority))
        });
        each.filter(Reading::is_used).collect()
    }
}

/// `running` and `waiting` go down only after the time was observed, and are read before it: who reads
/// sees a request in the one or in the other, so a series never disappears.
impl Cell {
    fn new() -> Self {
        Self {
            running: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            rejected: array::from_fn(|_| AtomicU64::new(0)),
            processing_time: Histogram::new(),
            queue_time: Histogram::new(),
        }
    }

    pub(crate) fn starts(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// After so many nanoseconds.
    pub(crate) fn ends(&self, took: u64) {
        self.processing_time.observe(took);
        self.running.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn joins(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// After so many nanoseconds.
    pub(crate) fn leaves(&self, waited: u64) {
        self.queue_time.observe(waited);
        self.waiting.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn refused(&self, reason: Reason) {
        self.rejected[cause(reason)].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, method: Method, priority: Priority) -> Reading {
        Reading {
            method: method.as_str(),
            priority: priority_word(priority),
            running: self.running.load(Ordering::Acquire),
            waiting: self.waiting.load(Ordering::Acquire),
            rejected: array::from_fn(|cause| {
                (CAUSES[cause], self.rejected[cause].load(Ordering::Relaxed))
            }),
            processing_time: self.processing_time.read(),
            queue_time: self.queue_time.read(),
        }
    }
}

impl Reading {
    pub(crate) fn has_run(&self) -> bool {
        self.running > 0 || self.processing_time.count > 0
    }

    pub(crate) fn has_waited(&self) -> bool {
        self.waiting > 0 || self.queue_time.count > 0
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.rejected.iter().any(|(_, count)| *count > 0)
    }

    fn is_used(&self) -> bool {
        self.has_run() || self.has_waited() || self.was_refused()
    }
}

/// Which of the two words it is: whoever waited too long, or would have had to, and everybody else.
fn cause(reason: Reason) -> usize {
    usize::from(reason == Reason::TimedOut)
}

/// The word for it in all that is observed, which is not quite that of headers and files.
pub(crate) const fn priority_word(priority: Priority) -> &'static str {
    match priority {
        Priority::Critical => "critical",
        Priority::Normal => "normal",
        Priority::NonCritical => "noncritical",
    }
}
