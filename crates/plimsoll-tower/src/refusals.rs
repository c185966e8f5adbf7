//! Counting and logging refusals, for the layers that refuse and for the metrics of a layer.

use plimsoll::Denied;

#[cfg(feature = "metrics")]
use crate::answer::LimitStatus;

/// Records the refusals of a layer in metrics and events, depending on features and settings.
#[derive(Clone, Default)]
pub(crate) struct RefusalLog {
    #[cfg(feature = "metrics")]
    pub(crate) metrics: Option<plimsoll_observe::Metrics>,
}

impl RefusalLog {
    /// Records one refusal.
    #[cfg_attr(
        not(any(feature = "metrics", feature = "tracing")),
        expect(
            unused_variables,
            clippy::unused_self,
            reason = "neither metrics nor events"
        )
    )]
    #[inline]
    pub(crate) fn record(&self, denied: &Denied) {
        #[cfg(feature = "metrics")]
        if let Some(metrics) = &self.metrics {
            let name = denied.limiter().unwrap_or(LimitStatus::UNNAMED);
            metrics.refused(name, denied.reason());
        }
        #[cfg(feature = "tracing")]
        tracing::event!(
            target: "plimsoll",
            // A server under load logs many of them.
            tracing::Level::DEBUG,
            limiter = denied.limiter(),
            reason = denied.reason().as_str(),
            retry_after = denied.retry_after().map(|after| after.as_secs_f64()),
            "refused"
        );
    }
}

/// Logs that the program does not record what a key is made of.
#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "no events without `tracing`")
)]
pub(crate) fn log_misconfigured(remedy: &str) {
    #[cfg(feature = "tracing")]
    tracing::event!(target: "plimsoll", tracing::Level::ERROR, "every request is refused: {remedy}");
}
