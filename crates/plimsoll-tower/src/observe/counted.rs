use plimsoll::Denied;

#[cfg(feature = "metrics")]
use crate::answer::Notice;

/// Where the refusals of a layer are counted and told of.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    #[cfg(feature = "metrics")]
    pub(super) metrics: Option<plimsoll_observe::Metrics>,
}

impl Counted {
    /// Something was refused.
    #[cfg_attr(
        not(any(feature = "metrics", feature = "tracing")),
        expect(unused_variables, clippy::unused_self, reason = "nobody looks")
    )]
    #[inline]
    pub(crate) fn refused(&self, denied: &Denied) {
        #[cfg(feature = "metrics")]
        if let Some(metrics) = &self.metrics {
            let name = denied.limiter().unwrap_or(Notice::UNNAMED);
            metrics.refused(name, denied.reason());
        }
        #[cfg(feature = "tracing")]
        tracing::event!(
            target: "plimsoll",
            // Of a server under load there are many.
            tracing::Level::DEBUG,
            limiter = denied.limiter(),
            reason = denied.reason().as_str(),
            retry_after = denied.retry_after().map(|after| after.as_secs_f64()),
            "refused"
        );
    }
}

/// The program does not keep what a key is made of.
#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "nobody looks")
)]
pub(crate) fn log_misconfigured(remedy: &str) {
    #[cfg(feature = "tracing")]
    tracing::event!(target: "plimsoll", tracing::Level::ERROR, "every request is refused: {remedy}");
}
