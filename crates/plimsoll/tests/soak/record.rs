//! What was granted when, in real time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Real time since the start. The only clock of this test that is not under test.
#[derive(Clone)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "limits must hold in real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.elapsed()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "real time passes while others work"
    )]
    pub(crate) fn sleep(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

/// Each grant: not before the first moment, not after the second, of this cost.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<(Duration, Duration, u64)>>>);

impl Record {
    pub(crate) fn add(&self, before: Duration, after: Duration, cost: u64) {
        self.0
            .lock()
            .expect("never poisoned")
            .push((before, after, cost));
    }

    /// Checks that no span of length `span` saw more than `allowed`. Only grants that lie in it for certain are
    /// counted, so the check is never wrong; the looser the record, the weaker it is.
    pub(crate) fn check(&self, what: &str, span: Duration, allowed: u64) {
        let mut grants = self.0.lock().expect("never poisoned").clone();
        grants.sort_unstable();
        for (first, &(start, ..)) in grants.iter().enumerate() {
            let end = start + span;
            let inside = grants[first..]
                .iter()
                .take_while(|(before, ..)| *before <= end)
                .filter(|(_, after, _)| *after <= end);
            let sum: u64 = inside.map(|(_, _, cost)| *cost).sum();
            assert!(
                sum <= allowed,
                "{what}: {sum} granted within {span:?} from {start:?}, where {allowed} are allowed"
            );
        }
    }
}
