use std::sync::Arc;

use plimsoll::together::may_wait;
use plimsoll::{Limiter, LimiterExt, Moment, Standing};
use plimsoll_kinds::{AnyLimiter, Provider, Weight};

use crate::Head;
use crate::http::{Ask, Asked, Granted, Subject, Take};

/// The limiter of one weight, if the weight is limited.
#[derive(Clone)]
pub struct Weighed {
    /// Asked first for saturation.
    pub(super) provider: Option<Provider>,
    limiter: Option<Arc<dyn Limiter>>,
    weight: Weight,
}

impl Weighed {
    pub(super) fn new(provider: &Provider, weight: Weight) -> Self {
        Self {
            provider: None,
            limiter: limiter(provider, weight),
            weight,
        }
    }
}

/// The limiter of a weight whose permits are held.
pub(super) fn limiter(provider: &Provider, weight: Weight) -> Option<Arc<dyn Limiter>> {
    provider.limiters(weight).next()?;
    let resource = provider.resource(weight).map(AnyLimiter::Resource);
    resource.map(|limiter| Arc::clone(limiter.shared()))
}

/// Requests count by their weight.
#[derive(Clone, Copy, Debug)]
pub struct ByWeight;

impl Subject<Weighed> for ByWeight {
    type Key = ();

    fn ask(
        &self,
        weighed: &Weighed,
        _head: &Head<'_>,
        take: Option<Take>,
        held: &mut Granted<()>,
    ) -> Ask {
        if let (Some(provider), Some(_)) = (&weighed.provider, &take)
            && let Err(denied) = provider.check_saturation()
        {
            return Ask::Refused(denied);
        }
        let (Some(limiter), Some(take)) = (weighed.limiter.as_deref(), take) else {
            return Ask::Pass;
        };
        if let Some(permit) = limiter.attempt_owned(take.demand) {
            held.permit = Some(permit);
            return Ask::Pass;
        }
        let acquire = |demand| limiter.acquire_owned(demand);
        take.slowly(limiter.is_remote(), || may_wait(limiter), acquire, held)
    }

    fn asked<'a>(&self, weighed: &'a Weighed, _key: Option<&'a ()>) -> Asked<'a> {
        weighed
            .limiter
            .as_deref()
            .map_or(Asked::Nothing, Asked::Limiter)
    }

    fn standing(&self, weighed: &Weighed, _key: Option<&()>) -> Option<Standing> {
        weighed.limiter.as_ref().map(|limiter| limiter.standing())
    }

    fn promise(&self, weighed: &Weighed) -> Standing {
        self.standing(weighed, None).unwrap_or_default()
    }

    fn now(&self, weighed: &Weighed) -> Moment {
        let limiter = weighed.limiter.as_ref();
        limiter.map_or(Moment::ORIGIN, |limiter| limiter.clock().precise_now())
    }

    fn name<'l>(&self, weighed: &'l Weighed) -> Option<&'l str> {
        let own = weighed.limiter.as_ref().and_then(|limiter| limiter.name());
        Some(own.unwrap_or(weighed.weight.as_str()))
    }
}

impl std::fmt::Debug for Weighed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Weighed").field(&self.weight).finish()
    }
}
