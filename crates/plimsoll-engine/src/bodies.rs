//! The layer that reads request bodies for limits that need them.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use plimsoll_tower::Head;
use plimsoll_tower::json::{BodyReader, Estimated};
use tower_layer::Layer;

use crate::limits::Limits;
use crate::request::BodyValues;

/// The largest number of bytes of a body that are read.
const BOUND: usize = 64 * 1024;

impl Limits {
    /// Returns a layer that reads the bodies of requests for limits that need them (`form:NAME`, `json:/POINTER`), and
    /// counts the bytes for limits with `request_bytes`. Add it outside of [`layer`](Self::layer). The handler gets the
    /// body unchanged.
    ///
    /// ```
    /// use plimsoll_engine::Limits;
    /// use tower::ServiceBuilder;
    ///
    /// let limits = Limits::from_yaml("
    /// limits: { tokens: { rate: 100k/min, cost: { estimate: 'json:/max_tokens' } } }
    /// routes: [{ match: /v1/**, limits: [tokens] }]
    /// ")?;
    /// let layers = ServiceBuilder::new().layer(limits.body_layer()).layer(limits.layer());
    /// # let _ = layers;
    /// # Ok::<(), plimsoll_engine::ConfigError>(())
    /// ```
    ///
    /// At most 64 KiB are read; a longer body counts as unknown. Bodies of routes that do not need it are not read. Without this
    /// layer a request whose limits need its body is answered with 500, and the log names the remedy. `request_bytes` is then read
    /// from `Content-Length`, and a body without it is answered with 500.
    pub fn body_layer(&self) -> BodyLayer {
        BodyLayer(Arc::new(Bodies(self.clone())))
    }
}

/// Reads bodies for limits that need them. [`Limits::body_layer`] makes it.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct BodyLayer(Arc<Bodies>);

impl<S> Layer<S> for BodyLayer {
    type Service = Estimated<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let reader: Arc<dyn BodyReader> = Arc::clone(&self.0) as _;
        Estimated::new(inner, reader)
    }
}

#[derive(Debug)]
struct Bodies(Limits);

impl BodyReader for Bodies {
    fn bound(&self, head: &Head<'_>) -> Option<usize> {
        let plan = self.0.plan();
        let route = &plan.routes[plan.route(head)?];
        route.reads_body.then_some(BOUND)
    }

    fn counts(&self, head: &Head<'_>) -> bool {
        let plan = self.0.plan();
        let route = plan.route(head).map(|route| &plan.routes[route]);
        route.is_some_and(|route| route.counts_body)
    }

    fn read(&self, text: &[u8], parts: &mut Parts) {
        let kind = parts.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let values = BodyValues::read(kind, text);
        parts.extensions.insert(values);
    }
}
