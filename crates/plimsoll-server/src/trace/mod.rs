//! Traces of decisions, for a collector that speaks OTLP. Without the feature `otlp` nothing of it is compiled.

#[cfg(feature = "otlp")]
mod environment;
#[cfg(feature = "otlp")]
mod otlp;

use std::time::Duration;

use axum::Router;
use plimsoll_engine::{Hold, Refusal};

/// Where traces go, if anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces(#[cfg(feature = "otlp")] Option<std::sync::Arc<otlp::Exporter>>);

impl Traces {
    /// Those that `settings` ask for. The variables `OTEL_*` may say that there are none.
    ///
    /// # Errors
    ///
    /// What is wrong with the endpoint or with a variable.
    #[cfg(feature = "otlp")]
    pub(crate) fn new(settings: Option<&str>) -> Result<Self, String> {
        let exporter = settings.map(otlp::Exporter::new).transpose()?.flatten();
        Ok(Self(exporter.map(Into::into)))
    }

    /// There are none, and whoever asks for some is told why.
    #[cfg(not(feature = "otlp"))]
    pub(crate) fn new(settings: Option<&str>) -> Result<Self, String> {
        match settings {
            None => Ok(Self()),
            Some(_) => Err("this program was built without the feature `otlp`: build it with `--features otlp`, or leave traces off".to_owned()),
        }
    }

    /// Whether requests and decisions are spans.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(clippy::unused_self, reason = "there are none")
    )]
    pub(crate) const fn are_there(&self) -> bool {
        #[cfg(feature = "otlp")]
        return self.0.is_some();
        #[cfg(not(feature = "otlp"))]
        false
    }

    /// A router whose requests are spans, if there are traces: the same otherwise, which costs nothing.
    pub(crate) fn layer(&self, router: Router) -> Router {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.0 {
            let exporter = std::sync::Arc::clone(exporter);
            return router.layer(axum::middleware::from_fn_with_state(exporter, otlp::serve));
        }
        router
    }

    /// A decision begins: what comes of it is told to what this returns.
    pub(crate) fn decision(&self) -> Deciding {
        #[cfg(feature = "otlp")]
        return Deciding(self.0.as_ref().and_then(|exporter| exporter.decision()));
        #[cfg(not(feature = "otlp"))]
        Deciding()
    }

    /// Sends what is left, within a time.
    pub(crate) async fn flush(self, within: Duration) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.0 {
            // If it panicked, that was said.
            let _ = tokio::task::spawn_blocking(move || exporter.flush(within)).await;
        }
        #[cfg(not(feature = "otlp"))]
        let _ = within;
    }
}

/// The span of a decision, if there is one. It ends when it is dropped.
#[must_use]
pub(crate) struct Deciding(#[cfg(feature = "otlp")] Option<Box<opentelemetry_sdk::trace::Span>>);

impl Deciding {
    /// The decision was made; `None` if no route is for the request.
    pub(crate) fn decided(self, decided: Option<&Result<Hold, Refusal>>) {
        #[cfg(feature = "otlp")]
        if let (Some(span), Some(decided)) = (self.0, decided) {
            otlp::decided(*span, decided);
        }
        #[cfg(not(feature = "otlp"))]
        let _ = decided;
    }

    /// The decision was made for Envoy. `fields` are those of the dynamic metadata, asked for by their names.
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
