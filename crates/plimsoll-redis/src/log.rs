//! Rate-limited log messages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Clock, Moment};

use crate::error::StoreErrorKind;

/// Minimum time between two messages of one kind, so that an outage at a high load does not flood the log.
const APART: Duration = Duration::from_secs(5);

/// The state of each kind of message.
#[derive(Default, Debug)]
pub(crate) struct Lines {
    failures: [Line; StoreErrorKind::ALL.len()],
    opened: Line,
}

#[derive(Default, Debug)]
struct Line {
    /// The moment from which the next message may be logged, in nanoseconds on the clock of the system.
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl Lines {
    pub(crate) fn failed(&self, kind: StoreErrorKind, message: &str) {
        let line = &self.failures[kind.index()];
        if let Some(suppressed) = line.due(Clock::system().precise_now()) {
            tracing::warn!(
                cause = kind.as_str(),
                message,
                suppressed,
                "the store did not decide"
            );
        }
    }

    pub(crate) fn opened(&self) {
        if let Some(suppressed) = self.opened.due(Clock::system().precise_now()) {
            tracing::warn!(suppressed, "the store does not answer, and is left alone");
        }
    }
}

impl Line {
    /// If a message may be logged now: the number of messages that were suppressed since the last one.
    fn due(&self, now: Moment) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let later = now.plus(APART).as_nanos();
        let due = now.as_nanos() >= next
            && self
                .next
                .compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if due {
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_in_a_while_and_it_says_how_many_there_were() {
        let line = Line::default();
        let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        assert_eq!(line.due(at(0)), Some(0));
        assert!((1..5000).all(|millis| line.due(at(millis)).is_none()));
        assert_eq!(line.due(at(5000)), Some(4999));
        assert_eq!(line.due(at(9999)), None);
    }
}
