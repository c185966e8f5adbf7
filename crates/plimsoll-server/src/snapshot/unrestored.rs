//! Counts and logs the saved states that a restart cannot restore.

use std::collections::BTreeMap;

use plimsoll_engine::Saved;

use super::file::Line;

/// Maximum number of limits that are logged by name.
const NAMED: usize = 20;

/// The saved states that a restart cannot restore, by limit.
#[derive(Debug, Default)]
pub(super) struct Unrestored {
    /// The limit of the current line.
    limit: String,
    by_limit: BTreeMap<String, UnrestoredCounts>,
}

#[derive(Debug, Default)]
struct UnrestoredCounts {
    /// States whose limit is gone or full.
    states: u64,
    /// Permits that were held when the snapshot was written.
    permits: u64,
    learned: u64,
}

impl Unrestored {
    /// Sets the limit to which the next line belongs.
    pub(super) fn begin_line(&mut self, line: &Line) {
        let (Line::Limit(saved) | Line::Envoy(saved)) = line else {
            "CL.THROTTLE".clone_into(&mut self.limit);
            return;
        };
        match saved {
            Saved::Rate { limiter, .. }
            | Saved::Keys { limiter, .. }
            | Saved::Learned { limiter, .. } => limiter.clone_into(&mut self.limit),
            Saved::LeftOut {
                limiter,
                permits,
                learned,
            } => {
                let counts = self.by_limit.entry(limiter.clone()).or_default();
                counts.permits += permits;
                counts.learned += learned;
            }
            _ => {}
        }
    }

    /// Counts a state that could not be restored.
    pub(super) fn count_state(&mut self) {
        let counts = self.by_limit.entry(self.limit.clone()).or_default();
        counts.states += 1;
    }

    /// Logs the counts.
    pub(super) fn log(&self) {
        for (limit, counts) in self.by_limit.iter().take(NAMED) {
            let UnrestoredCounts {
                states,
                permits,
                learned,
            } = counts;
            if *states > 0 {
                tracing::warn!(
                    limit,
                    states,
                    "states of the snapshot cannot be restored: the file has changed, or the limit is full"
                );
            }
            if *permits > 0 {
                tracing::warn!(
                    limit,
                    permits,
                    "permits were held when the snapshot was written: their holders are unknown, and may still use as much beyond the limit"
                );
            }
            if *learned > 0 {
                tracing::warn!(limit, keys = learned, "keys find their limits anew");
            }
        }
        if let Some(more) = self.by_limit.len().checked_sub(NAMED + 1) {
            tracing::warn!(limits = more + 1, "and so do more limits");
        }
    }
}
