//! Traits and types by which a [`LimitLayer`](crate::LimitLayer) asks its limit, for requests of any type.

use plimsoll::{Acquire, Demand, Limiter, LimiterExt, PerKey, Permit};

use crate::Leases;

/// Decides whether a request is admitted.
///
/// [`LimitLayer::new`](crate::LimitLayer::new) and [`by_key`](crate::LimitLayer::by_key) cover the usual cases; implement this
/// for others. Here writes have a limit, and reads have none:
///
/// ```
/// use plimsoll::{Acquire, Concurrency, Demand, Gate, Limiter, LimiterExt, Permit};
/// use plimsoll_tower::LimitLayer;
/// use plimsoll_tower::admit::Admit;
///
/// #[derive(Clone)]
/// struct Writes {
///     slots: Gate<Concurrency>,
///     unlimited: Gate<Concurrency>,
/// }
///
/// enum Query {
///     Read,
///     Write,
/// }
///
/// impl Writes {
///     fn gate(&self, query: &Query) -> &Gate<Concurrency> {
///         match query {
///             Query::Read => &self.unlimited,
///             Query::Write => &self.slots,
///         }
///     }
/// }
///
/// impl Admit<Query> for Writes {
///     fn attempt(&self, query: &Query) -> Option<Permit<'static>> {
///         self.gate(query).attempt_owned(Demand::ONE)
///     }
///
///     fn acquire(&self, query: &Query) -> Acquire<'static> {
///         self.gate(query).acquire_owned(Demand::ONE)
///     }
/// }
///
/// let (slots, unlimited) = (Gate::new(Concurrency::new(2)), Gate::new(Concurrency::new(1_000_000)));
/// let layer = LimitLayer::with(Writes { slots, unlimited });
/// # let _ = layer;
/// ```
pub trait Admit<Request>: Send + Sync + 'static {
    /// Takes a permit if it can be granted at once. After `None`, [`acquire`](Self::acquire) is called.
    fn attempt(&self, request: &Request) -> Option<Permit<'static>>;

    /// Takes a permit, or waits for it if the limiter has a queue and the demand may wait.
    fn acquire(&self, request: &Request) -> Acquire<'static>;

    /// Called with a request that was granted, before the service is called with it. Does nothing by default.
    #[inline]
    fn granted(&self, request: &mut Request, permit: &Permit<'static>) {
        let _ = (request, permit);
    }
}

/// Returns the demand of a request. Implemented by closures `Fn(&Request) -> Demand`.
pub trait DemandOf<Request>: Send + Sync + 'static {
    /// Returns the cost of the request, its priority, and the maximum time that it may wait.
    fn demand(&self, request: &Request) -> Demand;
}

/// Each request demands one permit.
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

/// One limiter for all requests.
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
    #[inline(always)]
    fn attempt(&self, request: &Request) -> Option<Permit<'static>> {
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
    #[inline(always)]
    fn attempt(&self, request: &Request) -> Option<Permit<'static>> {
        let key = (self.key)(request);
        self.limiters
            .attempt_owned(&key, self.demand.demand(request))
    }

    fn acquire(&self, request: &Request) -> Acquire<'static> {
        let demand = patience(self.demand.demand(request), self.sheds);
        self.limiters.acquire_owned(&(self.key)(request), demand)
    }
}

/// Decides as `A` does, and passes the leases of each permit to the request. See
/// [`LimitLayer::leases`](crate::LimitLayer::leases).
#[derive(Clone, Debug)]
pub struct WithLeases<A, F> {
    pub(crate) admit: A,
    pub(crate) put: F,
}

impl<Request, A, F> Admit<Request> for WithLeases<A, F>
where
    A: Admit<Request>,
    F: Fn(&mut Request, Leases) + Send + Sync + 'static,
{
    #[inline(always)]
    fn attempt(&self, request: &Request) -> Option<Permit<'static>> {
        self.admit.attempt(request)
    }

    fn acquire(&self, request: &Request) -> Acquire<'static> {
        self.admit.acquire(request)
    }

    fn granted(&self, request: &mut Request, permit: &Permit<'static>) {
        self.admit.granted(request, permit);
        (self.put)(request, Leases::of_permit(permit));
    }
}

/// The part of an [`Admit`] that a waiting request needs.
pub(crate) trait OnGrant<Request>: Send + Sync {
    fn granted(&self, request: &mut Request, permit: &Permit<'static>);
}

impl<Request, A: Admit<Request>> OnGrant<Request> for A {
    fn granted(&self, request: &mut Request, permit: &Permit<'static>) {
        Admit::granted(self, request, permit);
    }
}

/// A demand that does not wait if the layer sheds.
pub(crate) const fn patience(demand: Demand, sheds: bool) -> Demand {
    if sheds { demand.at_once() } else { demand }
}
