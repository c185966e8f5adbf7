//! Replaces `span.rs` without the feature `tracing`.

use plimsoll::{Demand, Outcome, Reason};

use crate::Method;

/// Does nothing.
#[derive(Default)]
pub(crate) struct RequestSpan;

impl RequestSpan {
    pub(crate) fn new(_limiter: &str, _method: Method, _demand: Demand) -> Self {
        Self
    }

    pub(crate) fn inside<T>(&self, ask: impl FnOnce() -> T) -> T {
        ask()
    }

    pub(crate) fn granted(&self, _waited: Option<u64>) {}

    pub(crate) fn refused(&self, _reason: Reason, _waited: Option<u64>) {}

    pub(crate) fn returned(&self, _took: u64, _outcome: Outcome) {}
}
