//! Bodies that are read before their limits are asked.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use plimsoll_tower::Head;
use plimsoll_tower::json::{BodyReader, Estimated};
use tower_layer::Layer;

use crate::limits::Limits;
use crate::request::BodyValues;

/// How many bytes of a body are read.
const BOUND: usize = 64 * 1024;

impl Limits {
    /// A layer that reads the bodies of requests whose limits need it (`form:NAME`, `json:/POINTER`), and counts those of
    /// requests that are charged by `request_bytes`, to be put around [`layer`](Self::layer). The handler gets the same body.
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
    /// At most 64 KiB are read; of a longer body nothing is known. Requests of other routes are not looked into. Where such a limit
    /// is asked without this layer, the answer is 500, and the log says what is missing; `request_bytes` is then what
    /// `Content-Length` says, and a body in chunks is such a request.
    pub fn body_layer(&self) -> BodyLayer {
        BodyLayer(Arc::new(Bodies(self.clone())))
    }
}

/// Reads bodies for limits that need it. Made by [`Limits::body_layer`].
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
