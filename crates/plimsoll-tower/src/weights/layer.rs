use std::fmt;
use std::sync::Arc;

use plimsoll::InvalidLimit;
use plimsoll_kinds::{Provider, Weight};
use tower_layer::Layer;

use super::service::Measured;
use super::subject::{ByWeight, Weighed, limiter};
use super::taken::Meters;
use crate::{HttpLimit, HttpLimitLayer, RequestLimit};

/// The layer inside of a [`WeightsLayer`] that limits requests and their stated memory. See [`WeightsLayer::answer`].
///
/// Settings that several layers share are a function of it:
///
/// ```
/// use plimsoll_tower::weights::WeighedLayer;
///
/// fn quiet(layer: WeighedLayer) -> WeighedLayer {
///     layer.problem(false).retry_after(false)
/// }
/// # let _ = quiet;
/// ```
pub type WeighedLayer = HttpLimitLayer<(
    RequestLimit<Weighed, ByWeight>,
    RequestLimit<Weighed, ByWeight>,
)>;

/// A layer that limits requests by their weights, which it measures itself. See the [module](super).
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
///
/// The layer is applied in two parts: the outer part decides on `request_count` and the stated `memory_size`, and
/// answers refused requests; the inner part measures the bodies. All services made by it share the limits of the
/// provider.
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct WeightsLayer {
    layer: WeighedLayer,
    meters: Arc<Meters>,
}

impl WeightsLayer {
    /// Creates a layer for the weights that this provider limits. Weights that it does not limit are not measured.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_kinds::{Provider, Weight};
    /// use plimsoll_tower::weights::WeightsLayer;
    ///
    /// let provider = Provider::builder().limit(Weight::REQUEST_COUNT, Gate::new(Concurrency::new(100))).build()?;
    /// let layer = WeightsLayer::new(&provider);
    /// # let _ = layer;
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if bytes on the network are limited by a resource: their permits would never be returned.
    /// [`try_new`](Self::try_new) returns an error instead.
    #[track_caller]
    pub fn new(provider: &Provider) -> Self {
        match Self::try_new(provider) {
            Ok(layer) => layer,
            Err(invalid) => panic!("{invalid}"),
        }
    }

    /// Creates a layer for the weights that this provider limits.
    ///
    /// # Errors
    ///
    /// Returns an error if bytes on the network are limited by a resource: their permits would never be returned.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_kinds::{Provider, Weight};
    /// use plimsoll_tower::weights::WeightsLayer;
    ///
    /// let provider = Provider::builder().limit(Weight::NETWORK_BYTES, Gate::new(Concurrency::new(1 << 20))).build()?;
    /// assert!(WeightsLayer::try_new(&provider).is_err());
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
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

    /// Changes the settings of the layer that admits and refuses requests: the priority, the response to a refusal.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_kinds::{Provider, Weight};
    /// use plimsoll_tower::weights::WeightsLayer;
    /// use std::time::Duration;
    ///
    /// let provider = Provider::builder().limit(Weight::REQUEST_COUNT, Gate::new(Concurrency::new(100))).build()?;
    /// let layer = WeightsLayer::try_new(&provider)?.answer(|layer| layer.retry_full_after(Duration::from_secs(1)));
    /// # let _ = layer;
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
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
