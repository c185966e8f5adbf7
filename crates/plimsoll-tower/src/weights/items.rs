use std::fmt;
use std::sync::Arc;

use plimsoll::{Acquire, Demand, Limiter, LimiterExt, Permit};
use plimsoll_kinds::{Provider, Weight};

use super::subject::limiter;
use crate::LimitLayer;
use crate::admit::Admit;

/// Returns a layer for services whose requests are decoded messages. A request takes as many items as `count` returns, and
/// holds them until it is answered.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_kinds::{Provider, Weight};
/// use plimsoll_tower::weights::items;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// struct Batch {
///     spans: Vec<String>,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let provider = Provider::builder().limit(Weight::REQUEST_ITEMS, Gate::new(Concurrency::new(2))).build()?;
/// let layer = items(&provider, |batch: &Batch| u64::try_from(batch.spans.len()).unwrap_or(u64::MAX));
/// let service = layer.layer(service_fn(async |_: Batch| Ok::<_, std::io::Error>(())));
///
/// let batch = |spans| Batch { spans: vec![String::new(); spans] };
/// assert!(service.clone().oneshot(batch(2)).await.is_ok());
/// assert!(service.oneshot(batch(3)).await.is_err());
/// # Ok::<(), plimsoll::InvalidLimit>(()) }).unwrap();
/// ```
///
/// If the provider does not limit items, all requests pass. A refusal is an error,
/// [`LimitError::Denied`](crate::LimitError::Denied).
pub fn items<F>(provider: &Provider, count: F) -> LimitLayer<Items<F>> {
    LimitLayer::with(Items {
        limiter: limiter(provider, Weight::REQUEST_ITEMS),
        count,
    })
}

/// Admits messages by the number of their items. Made by [`items`].
///
/// It is an [`Admit`](crate::admit::Admit), so it can also be given to [`LimitLayer::with`](crate::LimitLayer::with). A message
/// with more items than the limiter can ever grant is refused as too large.
#[derive(Clone)]
pub struct Items<F> {
    limiter: Option<Arc<dyn Limiter>>,
    count: F,
}

impl<M, F> Admit<M> for Items<F>
where
    F: Fn(&M) -> u64 + Send + Sync + 'static,
{
    fn attempt(&self, message: &M) -> Option<Permit<'static>> {
        let demand = Demand::of((self.count)(message));
        match &self.limiter {
            Some(limiter) => limiter.attempt_owned(demand),
            None => Some(Permit::spent(plimsoll::Grant::of(demand))),
        }
    }

    fn acquire(&self, message: &M) -> Acquire<'static> {
        let demand = Demand::of((self.count)(message));
        match &self.limiter {
            Some(limiter) => limiter.acquire_owned(demand),
            None => Acquire::ready(Ok(Permit::spent(plimsoll::Grant::of(demand)))),
        }
    }
}

impl<F> fmt::Debug for Items<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}
