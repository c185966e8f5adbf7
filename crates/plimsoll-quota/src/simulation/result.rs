//! The result of a run.

use plimsoll::Moment;

/// Parts of a token: a nanotoken per second, for a nanosecond.
const ATTO: f64 = 1e18;

/// The result of a run of a [`ProxyFleet`](crate::simulation::ProxyFleet).
///
/// The admitted requests are within the limit if [`worst`](Self::worst) is at most the burst. Requests in
/// [`unassigned`](Self::unassigned) and [`stale`](Self::stale) do not count towards it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FleetResult {
    /// Requests that arrived, by proxy.
    pub demanded: Vec<u64>,
    /// Requests that took a token of an assignment, by proxy.
    pub admitted: Vec<u64>,
    /// Requests that took a token of an assignment, by second.
    pub admitted_by_second: Vec<u64>,
    /// Requests that passed because a proxy had no assignment and allows requests in that case ([`Without::Allow`]).
    ///
    /// [`Without::Allow`]: crate::simulation::Without::Allow
    pub unassigned: u64,
    /// Requests that took a token of an assignment from before the last restart of the server, after the restarted server had
    /// divided the limit again. Only proxies that were cut off have such assignments.
    pub stale: u64,
    /// The largest excess of admitted requests over the rate in any span of time, in tokens, minus the allowance for
    /// restarts of the server. The bound is the burst.
    pub worst: f64,
    /// Whether the division lent more than its rate or its burst at any time.
    pub overlent: bool,
    /// The number of assignments that were sent, including those that only renew one.
    pub pushes: u64,
    /// The number of assignments that changed a share.
    pub changes: u64,
}

impl FleetResult {
    pub(super) fn admit(&mut self, proxy: usize, now: Moment) {
        self.admitted[proxy] += 1;
        let second = usize::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX);
        if let Some(count) = self.admitted_by_second.get_mut(second) {
            *count += 1;
        }
    }

    /// Returns the number of requests that took a token of an assignment, of all proxies.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.admitted.iter().sum()
    }
}

/// Watches all spans of time at once: a level rises by each request and drains at the rate, and its maximum is the
/// excess of the worst span.
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

    /// Allows `tokens`, and the rate for `nanos`, in addition.
    pub(super) fn allow(&mut self, tokens: u64, nanos: u128) {
        self.allowed +=
            u128::from(tokens) * 1_000_000_000_000_000_000 + nanos * u128::from(self.rate);
    }

    #[expect(clippy::cast_precision_loss, reason = "to be shown")]
    pub(super) const fn worst(&self) -> f64 {
        self.worst as f64 / ATTO
    }
}
