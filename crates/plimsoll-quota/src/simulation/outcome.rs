//! What came of a run.

use plimsoll::Moment;

/// Parts of a token: a nanotoken per second, for a nanosecond.
const ATTO: f64 = 1e18;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Requests that came, by proxy.
    pub demanded: Vec<u64>,
    /// Requests that took a token of an assignment, by proxy.
    pub admitted: Vec<u64>,
    /// Requests that took a token of an assignment, by second.
    pub admitted_by_second: Vec<u64>,
    /// Requests that passed because a proxy had no assignment.
    pub unassigned: u64,
    /// Requests that took a token of an assignment of a server before the last restart, when the one after it had already divided anew:
    /// at proxies that were cut off.
    pub stale: u64,
    /// By how many tokens the admitted were above the rate in the worst span of time, less what restarts of the server
    /// are allowed. The bound is the burst.
    pub worst: f64,
    /// Whether more was lent than there is, at any time.
    pub overlent: bool,
    /// Assignments that were sent, with those that only make one last.
    pub pushes: u64,
    /// Of them those that changed a share.
    pub changes: u64,
}

impl Outcome {
    pub(super) fn admit(&mut self, proxy: usize, now: Moment) {
        self.admitted[proxy] += 1;
        let second = usize::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX);
        if let Some(count) = self.admitted_by_second.get_mut(second) {
            *count += 1;
        }
    }

    /// All requests that took a token of an assignment.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.admitted.iter().sum()
    }
}

/// Watches all spans of time at once: what is above the rate drains at the rate, and its highest level is that of the worst span.
#[derive(Debug)]
pub(super) struct Watch {
    rate: u64,
    level: u128,
    allowed: u128,
    worst: i128,
    at: Moment,
}

impl Watch {
    /// `rate` in nanotokens per second.
    pub(super) const fn new(rate: u64) -> Self {
        Self {
            rate,
            level: 0,
            allowed: 0,
            worst: 0,
            at: Moment::ORIGIN,
        }
    }

    pub(super) fn admitted(&mut self, now: Moment) {
        let drained = u128::from(now.nanos_since(self.at)) * u128::from(self.rate);
        self.at = now;
        self.level = self.level.saturating_sub(drained) + 1_000_000_000_000_000_000;
        let above = |level: u128| i128::try_from(level).unwrap_or(i128::MAX);
        self.worst = self.worst.max(above(self.level) - above(self.allowed));
    }

    /// So many tokens, and the rate for a time, are allowed on top.
    pub(super) fn allow(&mut self, tokens: u64, nanos: u128) {
        self.allowed +=
            u128::from(tokens) * 1_000_000_000_000_000_000 + nanos * u128::from(self.rate);
    }

    #[expect(clippy::cast_precision_loss, reason = "to be shown")]
    pub(super) const fn worst(&self) -> f64 {
        self.worst as f64 / ATTO
    }
}
