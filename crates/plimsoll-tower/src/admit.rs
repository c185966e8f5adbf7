//! Who is asked before a request of any kind goes on.

use plimsoll::{Acquire, Demand, Denied, Limiter, PerKey, Permit};

/// Decides whether a request may go on.
///
/// [`LimitLayer`](crate::LimitLayer) has what is usual; implement this for what is not.
pub trait Admit<Request>: Send + Sync + 'static {
    /// Decides at once, if that can be. A refusal is not the last word: [`acquire`](Self::acquire) follows.
    ///
    /// # Errors
    ///
    /// If it cannot be granted at once.
    fn attempt(&self, request: &Request) -> Result<Permit<'static>, Denied>;

    /// Decides, waiting where that is wanted.
    fn acquire(&self, request: &Request) -> Acquire<'static>;
}

/// What a request asks for.
pub trait DemandOf<Request>: Send + Sync + 'static {
    /// How much, in which class, and how long it may wait.
    fn demand(&self, request: &Request) -> Demand;
}

/// One permit for each request.
#[derive(Clone, Copy, Default, Debug)]
pub struct One;

impl<Request> DemandOf<Request> for One {
    #[inline]
    fn demand(&self, _request: &Request) -> Demand {
        Demand::ONE
    }
}

impl<Request, F: Fn(&Request) -> Demand + Send + Sync + 'static> DemandOf<Request> for F {
    #[inline]
    fn demand(&self, request: &Request) -> Demand {
        self(request)
    }
}

/// One limit for all requests.
#[derive(Clone, Debug)]
pub struct Whole<L, D = One> {
    pub(crate) limiter: L,
    pub(crate) demand: D,
    pub(crate) sheds: bool,
}

impl<Request, L, D> Admit<Request> for Whole<L, D>
where
    L: Limiter + 'static,
    D: DemandOf<Request>,
{
    #[inline]
    fn attempt(&self, request: &Request) -> Result<Permit<'static>, Denied> {
        self.limiter.attempt_owned(self.demand.demand(request))
    }

    fn acquire(&self, request: &Request) -> Acquire<'static> {
        let demand = patience(self.demand.demand(request), self.sheds);
        self.limiter.acquire_owned(demand)
    }
}

/// A limit for each key.
#[derive(Clone, Debug)]
pub struct Each<L, F, D = One> {
    pub(crate) limiters: L,
    pub(crate) key: F,
    pub(crate) demand: D,
    pub(crate) sheds: bool,
}

impl<Request, K, L, F, D> Admit<Request> for Each<L, F, D>
where
    L: PerKey<K> + 'static,
    F: Fn(&Request) -> K + Send + Sync + 'static,
    D: DemandOf<Request>,
{
    #[inline]
    fn attempt(&self, request: &Request) -> Result<Permit<'static>, Denied> {
        let key = (self.key)(request);
        let permit = self.limiters.attempt(&key, self.demand.demand(request))?;
        Ok(permit.into_owned())
    }

    fn acquire(&self, request: &Request) -> Acquire<'static> {
        let demand = patience(self.demand.demand(request), self.sheds);
        self.limiters.acquire_owned(&(self.key)(request), demand)
    }
}

/// Who sheds does not wait.
pub(crate) const fn patience(demand: Demand, sheds: bool) -> Demand {
    if sheds { demand.at_once() } else { demand }
}
