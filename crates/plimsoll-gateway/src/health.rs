//! Passive health checks: a server that fails several times in a row is ejected for a while.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_config::gateway::HealthSpec;
use tokio::time::Instant;

/// Counts consecutive failures of a server, and ejects it after some.
#[derive(Debug)]
pub(crate) struct Health {
    failures: AtomicU32,
    /// The number of ejections since its last success.
    times: AtomicU32,
    /// The end of the ejection, in milliseconds since `start`.
    until: AtomicU64,
    start: Instant,
}

impl Health {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            failures: AtomicU32::new(0),
            times: AtomicU32::new(0),
            until: AtomicU64::new(0),
            start: now,
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        let past = now.saturating_duration_since(self.start).as_millis();
        u64::try_from(past).unwrap_or(u64::MAX)
    }

    /// The milliseconds until its ejection ends; 0 if it is not ejected.
    pub(crate) fn ejected(&self, now: Instant) -> u64 {
        match self.until.load(Ordering::Relaxed) {
            0 => 0,
            until => until.saturating_sub(self.millis(now)),
        }
    }

    pub(crate) fn succeeded(&self) {
        // Written only if it changes: all workers read it.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.times.load(Ordering::Relaxed) != 0 {
            self.times.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a failure. Returns whether it ejects the server.
    pub(crate) fn failed(&self, rules: &HealthSpec, now: Instant) -> bool {
        // Requests that were in flight before the ejection do not prolong it.
        if self.ejected(now) > 0 {
            return false;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let times = self.times.load(Ordering::Relaxed);
        if failures < rules.failures.0 && times == 0 {
            return false;
        }
        let longest = Duration::from(rules.longest);
        let ejected = Duration::from(rules.ejected).saturating_mul(1 << times.min(20));
        let ejected = u64::try_from(ejected.min(longest).as_millis()).unwrap_or(u64::MAX);
        let until = self.millis(now).saturating_add(ejected.max(1));
        self.until.store(until, Ordering::Relaxed);
        self.times.store(times.saturating_add(1), Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_and_longer_each_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (health, rules) = (Health::new(start), HealthSpec::default());
        for _ in 0..4 {
            assert!(!health.failed(&rules, at(0)));
        }
        health.succeeded();
        for _ in 0..4 {
            assert!(!health.failed(&rules, at(0)));
        }
        assert!(health.failed(&rules, at(0)));
        assert_eq!(health.ejected(at(0)), 5000);
        // Requests that were in flight do not prolong the ejection.
        assert!(!health.failed(&rules, at(100)));
        assert_eq!(
            (health.ejected(at(4000)), health.ejected(at(5000))),
            (1000, 0)
        );
        // After an ejection one more failure is enough, and the next ejection is twice as long.
        assert!(health.failed(&rules, at(5000)));
        assert_eq!(health.ejected(at(5000)), 10_000);
        health.succeeded();
        assert!(!health.failed(&rules, at(20_000)));
        // An ejection is never longer than the maximum.
        for round in 0..30 {
            let now = at(1_000_000 * (round + 1));
            while !health.failed(&rules, now) {}
            assert!(health.ejected(now) <= 300_000);
        }
    }
}
