use std::sync::Arc;

use plimsoll::Limiter;
use tower_layer::Layer;

use crate::Limit;
use crate::admit::{Each, One, Whole, WithLeases};
use crate::classify::ByResult;

/// A layer that applies a limit to a service with any type of request. A refusal is an error.
///
/// For services that speak HTTP, [`HttpLimitLayer`](crate::HttpLimitLayer) answers a refusal with a response instead.
///
/// Nothing is acquired before the service is called, and all services made by this layer share the limit. The permit is held
/// until the service has returned its response or its error. If the limiter has a queue, calls wait in it, unless the layer
/// [sheds](Self::shed).
///
/// ```
/// use plimsoll::{Concurrency, Gate, Reason};
/// use plimsoll_tower::LimitLayer;
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let gate = Gate::new(Concurrency::new(1));
/// let mut echo = LimitLayer::new(gate.clone())
///     .layer(service_fn(async |text: &'static str| Ok::<_, std::io::Error>(text)));
/// assert_eq!(echo.ready().await?.call("ship").await?, "ship");
///
/// let _busy = gate.try_acquire(1).unwrap();
/// let error = echo.ready().await?.call("ship").await.unwrap_err();
/// assert_eq!(error.denied().unwrap().reason(), Reason::Exhausted);
/// # Ok::<_, plimsoll_tower::LimitError<std::io::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct LimitLayer<A, C = ByResult> {
    admit: A,
    classify: C,
}

impl<L: Limiter + 'static> LimitLayer<Whole<L>> {
    /// Limits all requests by one limiter.
    pub fn new(limiter: L) -> Self {
        Self::with(Whole {
            limiter,
            demand: One,
            sheds: false,
        })
    }
}

impl<L, F> LimitLayer<Each<L, F>> {
    /// Limits requests by key. `key` returns the key of a request; `limiters` is a [`Keyed`](plimsoll::Keyed), or another
    /// implementation of [`PerKey`](plimsoll::PerKey).
    pub fn by_key(limiters: L, key: F) -> Self {
        Self::with(Each {
            limiters,
            key,
            demand: One,
            sheds: false,
        })
    }
}

impl<A> LimitLayer<A> {
    /// Decides by an [`Admit`](crate::admit::Admit) of your own.
    pub const fn with(admit: A) -> Self {
        Self {
            admit,
            classify: ByResult,
        }
    }
}

impl<L, D, C> LimitLayer<Whole<L, D>, C> {
    /// Sets the demand of a request: its cost, its priority and its maximum wait. Default: one permit.
    pub fn demand<E>(self, demand: E) -> LimitLayer<Whole<L, E>, C> {
        LimitLayer {
            admit: Whole {
                limiter: self.admit.limiter,
                demand,
                sheds: self.admit.sheds,
            },
            classify: self.classify,
        }
    }

    /// Refuses requests that cannot be granted at once, even if the limiter has a queue.
    pub fn shed(mut self) -> Self {
        self.admit.sheds = true;
        self
    }
}

impl<L, F, D, C> LimitLayer<Each<L, F, D>, C> {
    /// Sets the demand of a request: its cost, its priority and its maximum wait. Default: one permit.
    pub fn demand<E>(self, demand: E) -> LimitLayer<Each<L, F, E>, C> {
        LimitLayer {
            admit: Each {
                limiters: self.admit.limiters,
                key: self.admit.key,
                demand,
                sheds: self.admit.sheds,
            },
            classify: self.classify,
        }
    }

    /// Refuses requests that cannot be granted at once, even if the limiter has a queue.
    pub fn shed(mut self) -> Self {
        self.admit.sheds = true;
        self
    }
}

impl<A, C> LimitLayer<A, C> {
    /// Passes the [leases](crate::Leases) of its permit to each request, for services that must know when a lease is lost. The
    /// leases are empty if the limiter has none. Call [`demand`](Self::demand) and [`shed`](Self::shed) before this method.
    ///
    /// ```
    /// use http::Request;
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tower::{Leases, LimitLayer};
    ///
    /// # let shared_by_a_fleet = Gate::new(Concurrency::new(1));
    /// let layer = LimitLayer::new(shared_by_a_fleet).leases(|request: &mut Request<String>, leases: Leases| {
    ///     request.extensions_mut().insert(leases);
    /// });
    /// # let _ = layer;
    /// ```
    pub fn leases<F>(self, put: F) -> LimitLayer<WithLeases<A, F>, C> {
        LimitLayer {
            admit: WithLeases {
                admit: self.admit,
                put,
            },
            classify: self.classify,
        }
    }

    /// Sets how a result is classified for adaptive limits: a closure `Fn(Result<&Response, &Error>) -> Outcome`. Default: a
    /// response is a success, an error is ignored.
    pub fn classify<N: Clone>(self, classify: N) -> LimitLayer<A, N> {
        LimitLayer {
            admit: self.admit,
            classify,
        }
    }
}

impl<S, A: Clone, C: Clone> Layer<S> for LimitLayer<A, C> {
    type Service = Limit<S, A, C>;

    /// Every service made by this layer has the same limit.
    fn layer(&self, inner: S) -> Self::Service {
        Limit::new(inner, Arc::new(self.admit.clone()), self.classify.clone())
    }
}
