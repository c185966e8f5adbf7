//! The counters of a limiter: a cell for each method and priority, allocated in advance.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::{Priority, Reason};

use crate::Method;
use crate::histogram::{Counted, Histogram};

/// The values of the label `reason`: two words for refusals by queues, and the names of all other reasons.
const CAUSES: [&str; 14] = [
    "max_queue_items",
    "queue_timeout",
    Reason::Exhausted.as_str(),
    Reason::TooLarge.as_str(),
    Reason::TooSoon.as_str(),
    Reason::SoftThrottle.as_str(),
    Reason::LockedOut.as_str(),
    Reason::KeysFull.as_str(),
    Reason::Saturated.as_str(),
    Reason::Shed.as_str(),
    Reason::Closed.as_str(),
    Reason::NoKey.as_str(),
    Reason::Unavailable.as_str(),
    "other",
];

/// The counters of one limiter.
#[derive(Debug)]
pub(crate) struct Cells([[Cell; Priority::ALL.len()]; Method::ALL.len()]);

/// The counters of one method and priority.
#[derive(Debug)]
pub(crate) struct Cell {
    running: AtomicU64,
    waiting: AtomicU64,
    rejected: [AtomicU64; CAUSES.len()],
    processing_time: Histogram<1_000_000>,
    queue_time: Histogram<500_000>,
}

/// The values of a cell at a scrape.
pub(crate) struct Reading {
    pub(crate) method: &'static str,
    pub(crate) priority: &'static str,
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    /// By the value of the label `reason`.
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

    /// The cells in use.
    pub(crate) fn read(&self) -> Vec<Reading> {
        let each = Method::ALL.into_iter().flat_map(|method| {
            // The highest class first.
            let classes = Priority::ALL.into_iter().rev();
            classes.map(move |priority| self.of(method, priority).read(method, priority))
        });
        each.filter(Reading::is_used).collect()
    }
}

/// `running` and `waiting` are decremented after the time was observed, and are read before it. A scrape therefore sees
/// a request in one of the two, and a series never disappears.
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

    /// Ends a request that took this many nanoseconds.
    pub(crate) fn ends(&self, took: u64) {
        self.processing_time.observe(took);
        self.running.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn joins(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a wait that took this many nanoseconds.
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

/// The index into [`CAUSES`].
fn cause(reason: Reason) -> usize {
    let word = match reason {
        Reason::QueueFull | Reason::Evicted => return 0,
        Reason::TimedOut => return 1,
        other => other.as_str(),
    };
    let known = CAUSES.iter().position(|cause| *cause == word);
    known.unwrap_or(CAUSES.len() - 1)
}

/// The value of the label `priority`. Headers and files write `non_critical` instead.
pub(crate) const fn priority_word(priority: Priority) -> &'static str {
    match priority {
        Priority::Critical => "critical",
        Priority::Normal => "normal",
        Priority::NonCritical => "noncritical",
    }
}
