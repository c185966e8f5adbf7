use std::fmt;
use std::sync::Arc;

use plimsoll::InvalidLimit;
use plimsoll_kinds::{Provider, Weight};
use tower_layer::Layer;

use super::service::Measured;
use super::subject::{ByWeight, Weighed, limiter};
use super::taken::Meters;
use crate::{HttpLimit, HttpLimitLayer, RequestLimit};

/// The layer that counts requests and the memory they state.
pub type WeighedLayer = HttpLimitLayer<(
    RequestLimit<Weighed, ByWeight>,
    RequestLimit<Weighed, ByWeight>,
)>;

/// Limits requests by what they weigh, which the layer measures itself. See the [module](super).
///
/// ```
/// use axum::{Router, routing::post};
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_kinds::{Provider, Weight};
/// use plimsoll_tower::PriorityHeader;
/// use plimsoll_tower::weights::WeightsLayer;
///
/// let provider = Provider::builder().limit(Weight::MEMORY_SIZE, Gate::new(Concurrency::new(64 << 20))).build()?;
/// let layer = WeightsLayer::try_new(&provider)?.answer(|layer| layer.priority(PriorityHeader::default()));
/// let app: Router = Router::new().route("/", post(|body: String| async move { body })).layer(layer);
/// # let _ = app;
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct WeightsLayer {
    layer: WeighedLayer,
    meters: Arc<Meters>,
}

impl WeightsLayer {
    /// Measures what this provider limits.
    ///
    /// # Panics
    ///
    /// If bytes on the network are limited by a resource, whose permits nothing would return.
    #[track_caller]
    pub fn new(provider: &Provider) -> Self {
        match Self::try_new(provider) {
            Ok(layer) => layer,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Measures what this provider limits.
    ///
    /// # Errors
    ///
    /// If bytes on the network are limited by a resource, whose permits nothing would return.
    pub fn try_new(provider: &Provider) -> Result<Self, InvalidLimit> {
        let bytes = match provider.limiters(Weight::NETWORK_BYTES).next() {
            Some(_) => provider.rate(Weight::NETWORK_BYTES)?,
            None => None,
        };
        let measured = [
            Weight::REQUEST_COUNT,
            Weight::NETWORK_BYTES,
            Weight::MEMORY_SIZE,
        ];
        let meters = Meters {
            bytes,
            memory: limiter(provider, Weight::MEMORY_SIZE),
            is_open: provider.weights().any(|weight| !measured.contains(&weight)),
            provider: provider.clone(),
        };
        let of = |weight| Weighed::new(provider, weight);
        let mut requests = of(Weight::REQUEST_COUNT);
        requests.provider = Some(provider.clone());
        let memory = RequestLimit::with_subject(of(Weight::MEMORY_SIZE), ByWeight);
        let layer = HttpLimitLayer::new(RequestLimit::with_subject(requests, ByWeight));
        Ok(Self {
            layer: layer.and(memory.cost_by_content_length(0)),
            meters: Arc::new(meters),
        })
    }

    /// Sets how requests are let in and refused: their priority, the answer.
    pub fn answer(mut self, set: impl FnOnce(WeighedLayer) -> WeighedLayer) -> Self {
        self.layer = set(self.layer);
        self
    }
}

impl<S: Clone> Layer<S> for WeightsLayer {
    type Service = HttpLimit<
        Measured<S>,
        (
            RequestLimit<Weighed, ByWeight>,
            RequestLimit<Weighed, ByWeight>,
        ),
    >;

    fn layer(&self, inner: S) -> Self::Service {
        self.layer.layer(Measured {
            inner,
            meters: Arc::clone(&self.meters),
        })
    }
}

impl fmt::Debug for WeightsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeightsLayer")
            .field(&self.meters.provider)
            .finish()
    }
}
