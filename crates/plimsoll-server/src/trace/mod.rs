//! Traces of decisions, exported over OTLP. Without the feature `otlp` this module does nothing.

#[cfg(feature = "otlp")]
mod environment;
#[cfg(feature = "otlp")]
mod otlp;

use std::time::Duration;

use axum::Router;
use plimsoll_engine::{Hold, Refusal};

/// The exporter of traces, if tracing is enabled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces(#[cfg(feature = "otlp")] Option<std::sync::Arc<otlp::Exporter>>);

impl Traces {
    /// Creates the exporter for an endpoint. The variables `OTEL_*` may disable it.
    ///
    /// # Errors
    ///
    /// If the endpoint or a variable is invalid.
    #[cfg(feature = "otlp")]
    pub(crate) fn new(settings: Option<&str>) -> Result<Self, String> {
        let exporter = settings.map(otlp::Exporter::new).transpose()?.flatten();
        Ok(Self(exporter.map(Into::into)))
    }

    /// Fails if an endpoint is set, because the feature is missing.
    #[cfg(not(feature = "otlp"))]
    pub(crate) fn new(settings: Option<&str>) -> Result<Self, String> {
        match settings {
            None => Ok(Self()),
            Some(_) => Err("this program was built without the feature `otlp`: build it with `--features otlp`, or leave traces off".to_owned()),
        }
    }

    /// Whether requests and decisions are traced.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(clippy::unused_self, reason = "there are none")
    )]
    pub(crate) const fn is_enabled(&self) -> bool {
        #[cfg(feature = "otlp")]
        return self.0.is_some();
        #[cfg(not(feature = "otlp"))]
        false
    }

    /// Adds a layer that records a span for each request, if tracing is enabled.
    pub(crate) fn layer(&self, router: Router) -> Router {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.0 {
            let exporter = std::sync::Arc::clone(exporter);
            return router.layer(axum::middleware::from_fn_with_state(exporter, otlp::serve));
        }
        router
    }

    /// Starts the span of a decision.
    pub(crate) fn decision(&self) -> DecisionSpan {
        #[cfg(feature = "otlp")]
        return DecisionSpan(self.0.as_ref().and_then(|exporter| exporter.decision()));
        #[cfg(not(feature = "otlp"))]
        DecisionSpan()
    }

    /// Exports the remaining spans, within a timeout.
    pub(crate) async fn flush(self, within: Duration) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.0 {
            // The panic hook has reported a panic.
            let _ = tokio::task::spawn_blocking(move || exporter.flush(within)).await;
        }
        #[cfg(not(feature = "otlp"))]
        let _ = within;
    }
}

/// The span of a decision, if tracing is enabled. It ends when it is dropped.
#[must_use]
pub(crate) struct DecisionSpan(
    #[cfg(feature = "otlp")] Option<Box<opentelemetry_sdk::trace::Span>>,
);

impl DecisionSpan {
    /// Records the decision and ends the span. `None` if no route matches the request.
    pub(crate) fn decided(self, decided: Option<&Result<Hold, Refusal>>) {
        #[cfg(feature = "otlp")]
        if let (Some(span), Some(decided)) = (self.0, decided) {
            otlp::decided(*span, decided);
        }
        #[cfg(not(feature = "otlp"))]
        let _ = decided;
    }

    /// Records a decision for Envoy and ends the span. `fields` returns a field of the dynamic metadata by its name.
    pub(crate) fn answered(
        self,
        refused: bool,
        fields: impl Fn(&str) -> Option<serde_json::Value>,
    ) {
        #[cfg(feature = "otlp")]
        if let Some(span) = self.0 {
            otlp::answered(*span, refused, fields);
        }
        #[cfg(not(feature = "otlp"))]
        let _ = (refused, fields);
    }
}

#[cfg(all(test, not(feature = "otlp")))]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_traces_is_told_what_is_missing() {
        assert!(Traces::new(None).is_ok());
        let why = Traces::new(Some("")).expect_err("there are none");
        assert!(why.contains("--features otlp"), "{why}");
    }
}
