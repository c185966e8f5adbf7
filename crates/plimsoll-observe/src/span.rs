//! The span of a request.

use std::time::Duration;

use plimsoll::{Demand, Outcome, Reason};
use tracing::Span;
use tracing::field::Empty;

use crate::Method;
use crate::cells::priority_word;

/// The span of a request, from the call until the permit is returned. Without an interested subscriber it costs an
/// atomic load.
pub(crate) struct RequestSpan(Span);

impl RequestSpan {
    pub(crate) fn new(limiter: &str, method: Method, demand: Demand) -> Self {
        Self(tracing::debug_span!(
            target: "plimsoll",
            "plimsoll.acquire",
            limiter,
            method = method.as_str(),
            priority = priority_word(demand.priority),
            cost = demand.cost,
            waited = Empty,
            reason = Empty,
            took = Empty,
            outcome = Empty,
        ))
    }

    pub(crate) fn inside<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.0.in_scope(ask)
    }

    /// `waited` is in nanoseconds; `None` if it did not wait.
    pub(crate) fn granted(&self, waited: Option<u64>) {
        self.record("waited", waited.unwrap_or_default());
    }

    pub(crate) fn refused(&self, reason: Reason, waited: Option<u64>) {
        self.granted(waited);
        self.0.record("reason", reason.as_str());
    }

    pub(crate) fn returned(&self, took: u64, outcome: Outcome) {
        self.record("took", took);
        self.0.record("outcome", outcome.as_str());
    }

    fn record(&self, field: &str, nanos: u64) {
        if !self.0.is_disabled() {
            self.0
                .record(field, Duration::from_nanos(nanos).as_secs_f64());
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.0
    }
}

impl Default for RequestSpan {
    fn default() -> Self {
        Self(Span::none())
    }
}
