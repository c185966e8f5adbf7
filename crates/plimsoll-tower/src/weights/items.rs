use std::fmt;
use std::sync::Arc;

use plimsoll::{Acquire, Demand, Limiter, LimiterExt, Permit};
use plimsoll_kinds::{Provider, Weight};

use super::subject::limiter;
use crate::LimitLayer;
use crate::admit::Admit;

/// A layer for services whose requests are decoded messages: each takes as many items as `count` says, and holds them until
/// it is answered.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_kinds::{Provider, Weight};
/// use plimsoll_tower::weights::items;
///
/// struct Batch {
///     spans: Vec<String>,
/// }
///
/// let provider = Provider::builder().limit(Weight::REQUEST_ITEMS, Gate::new(Concurrency::new(10_000))).build()?;
/// let layer = items(&provider, |batch: &Batch| u64::try_from(batch.spans.len()).unwrap_or(u64::MAX));
/// # let _ = layer;
/// # Ok::<(), plimsoll::InvalidLimit>(())
/// ```
///
/// Where the provider does not limit items, everything passes.
pub fn items<F>(provider: &Provider, count: F) -> LimitLayer<Items<F>> {
    LimitLayer::with(Items {
        limiter: limiter(provider, Weight::REQUEST_ITEMS),
        count,
    })
}

/// Admits messages by the number of their items. Made by [`items`].
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
