use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll::{Demand, Denied, Limiter, Permit};
use plimsoll_kinds::{Provider, Rate, Weight};

use super::subject::limiter;

/// The limiters of a layer.
#[derive(Clone)]
pub(super) struct Meters {
    pub(super) provider: Provider,
    pub(super) bytes: Option<Rate>,
    pub(super) memory: Option<Arc<dyn Limiter>>,
    /// Whether a handler can take a weight.
    pub(super) is_open: bool,
}

/// The permits of a request, until it has been answered.
pub(super) struct Taken {
    pub(super) meters: Arc<Meters>,
    permits: Mutex<Vec<Permit<'static>>>,
}

impl Taken {
    pub(super) fn new(meters: Arc<Meters>) -> Self {
        Self {
            meters,
            permits: Mutex::default(),
        }
    }

    pub(super) fn keep(&self, permit: Permit<'static>) {
        if !permit.gives_back() {
            return;
        }
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        // One permit per limiter, however many parts a body has.
        let rest = permits
            .iter_mut()
            .try_fold(permit, |permit, known| match known.merge(permit) {
                Ok(()) => Err(()),
                Err(permit) => Ok(permit),
            });
        if let Ok(permit) = rest {
            permits.push(permit);
        }
    }
}

/// Takes weights of a request that are known only when it has been decoded. A [`WeightsLayer`](super::WeightsLayer) inserts it
/// into the extensions of the request.
///
/// ```
/// use plimsoll::Denied;
/// use plimsoll_kinds::Weight;
/// use plimsoll_tower::weights::Weights;
///
/// async fn export(weights: &Weights, spans: &[String]) -> Result<(), Denied> {
///     weights.take(Weight::REQUEST_ITEMS, u64::try_from(spans.len()).unwrap_or(u64::MAX)).await
/// }
/// ```
///
/// It is inserted only if the provider limits a weight that the layer does not measure. A handler that works with and without
/// such a limit looks for it:
///
/// ```
/// use http::Request;
/// use plimsoll::Denied;
/// use plimsoll_kinds::Weight;
/// use plimsoll_tower::weights::Weights;
///
/// async fn handler(request: Request<Vec<String>>) -> Result<(), Denied> {
///     let items = u64::try_from(request.body().len()).unwrap_or(u64::MAX);
///     if let Some(weights) = request.extensions().get::<Weights>() {
///         weights.take(Weight::REQUEST_ITEMS, items).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Weights(pub(super) Arc<Taken>);

impl Weights {
    /// Takes from the limiter of a weight, and waits if the limiter has a queue. Permits that must be returned are
    /// returned when the response has been sent. A weight that is not limited is granted at once. Dropping the future
    /// leaves the queue, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the limiter, with the name of the weight if the limiter has no name. A handler turns it
    /// into a response, for instance with the status of its [class](crate::answer::Class):
    ///
    /// ```
    /// use http::{Response, StatusCode};
    /// use plimsoll_kinds::Weight;
    /// use plimsoll_tower::{answer::Class, weights::Weights};
    ///
    /// async fn export(weights: &Weights, items: u64) -> Response<()> {
    ///     let mut response = Response::new(());
    ///     if let Err(denied) = weights.take(Weight::REQUEST_ITEMS, items).await {
    ///         *response.status_mut() = Class::of(&denied).status();
    ///     }
    ///     response
    /// }
    /// ```
    pub async fn take(&self, weight: Weight, demand: impl Into<Demand>) -> Result<(), Denied> {
        let Some(limiter) = limiter(&self.0.meters.provider, weight) else {
            return Ok(());
        };
        let permit = limiter.acquire_owned(demand.into()).await;
        self.0.keep(permit.map_err(|denied| match denied.limiter() {
            Some(_) => denied,
            None => denied.with_limiter(weight.as_str()),
        })?);
        Ok(())
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights: Vec<_> = self.0.meters.provider.weights().collect();
        f.debug_tuple("Weights").field(&weights).finish()
    }
}
