use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll::{Demand, Denied, Limiter, Permit};
use plimsoll_kinds::{Provider, Rate, Weight};

use super::subject::limiter;

/// What a layer measures by.
#[derive(Clone)]
pub(super) struct Meters {
    pub(super) provider: Provider,
    pub(super) bytes: Option<Rate>,
    pub(super) memory: Option<Arc<dyn Limiter>>,
    /// Whether a handler can take anything.
    pub(super) is_open: bool,
}

/// What a request has taken, until it has been answered.
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
        // Of one limiter there is one, however many parts a body has.
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

/// In the extensions of a request behind a [`WeightsLayer`](super::WeightsLayer): takes what is known of its weight only when
/// it has been decoded.
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
#[derive(Clone)]
pub struct Weights(pub(super) Arc<Taken>);

impl Weights {
    /// Takes from the limiter of a weight, and waits if it has a queue. What is to be returned is returned when the
    /// response has been sent. A weight that is not limited is taken at once.
    ///
    /// # Errors
    ///
    /// The refusal of the limiter, with the name of the weight if it has none of its own.
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
