use std::convert::Infallible;

use axum::Router;
use axum::routing::MethodRouter;
use plimsoll::Priority;
use plimsoll_policy::{OpCode, Policy};

use super::limited::{LimitedLayer, WithLimits};
use super::{Declaration, PolicyLayer};
use crate::{EndpointPriorityLayer, HttpLimitLayer, Limits};

/// Declares limits where handlers are added to a router.
///
/// ```
/// use axum::{Router, routing::{get, post}};
/// use plimsoll_tower::declare::LimitHandlers;
///
/// let app: Router = Router::new()
///     .route("/search", get(|| async { "found" }).limited(5.0, 2.5))
///     .route("/login", post(|| async {}).limited(1.0, 1.0));
/// # let _ = app;
/// ```
///
/// The limit covers all methods together that the `MethodRouter` has when the limit is declared. For one limit per
/// method, declare each and merge them: `get(a).limited(5.0, 2.5).merge(post(b).limited(1.0, 1.0))`.
pub trait LimitHandlers: Sized + private::Sealed {
    /// Limits each address to `rps` requests per second with bursts of `burst`. Numbers that are not positive have the
    /// same meaning as in a [`Policy`].
    #[must_use]
    fn limited(self, rps: f64, burst: f64) -> Self {
        let policy = Policy::per_second(rps).burst(burst);
        self.limited_by(Declaration::new("declared", policy))
    }

    /// Limits requests by the policy that was declared for this operation when the policies were
    /// [built](plimsoll_policy::PoliciesBuilder::handler); without one, by the fallback.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use plimsoll_policy::{OpCode, Policies, Policy};
    /// use plimsoll_tower::declare::{LimitHandlers, LimitRoutes};
    ///
    /// const LOGIN: OpCode = OpCode(1);
    ///
    /// let policies = Policies::builder().handler(LOGIN, Policy::per_second(1.0).burst(5.0)).build()?;
    /// let app: Router = Router::new()
    ///     .route("/login", post(|| async {}).limited_as(LOGIN))
    ///     .policies(policies);
    /// # let _ = app;
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    #[must_use]
    fn limited_as(self, op: impl Into<OpCode>) -> Self {
        self.limited_by(Declaration::operation(op.into()))
    }

    /// Limits requests by this declaration, which can have a name.
    #[must_use]
    fn limited_by(self, declaration: Declaration) -> Self;

    /// Limits requests by any limit, or by a pair of limits, in place of the fallback. The
    /// [settings](PolicyLayer::answer) of the policies around it, if there are any, determine how refusals are
    /// answered.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use plimsoll::{Concurrency, Gate, Queue};
    /// use plimsoll_tower::RequestLimit;
    /// use plimsoll_tower::declare::LimitHandlers;
    ///
    /// let slots = Gate::builder(Concurrency::new(4)).queue(Queue::fifo(20)).name("reports").build();
    /// let app: Router = Router::new()
    ///     .route("/report", get(|| async { "long" }).limited_with(RequestLimit::new(slots)));
    /// # let _ = app;
    /// ```
    #[must_use]
    fn limited_with<L: Limits + Clone>(self, limits: L) -> Self;

    /// Declares the priority of requests, for outer layers with an [`EndpointPriority`](crate::EndpointPriority).
    #[must_use]
    fn prioritized(self, priority: Priority) -> Self;
}

impl<S> LimitHandlers for MethodRouter<S, Infallible>
where
    S: Clone + Send + Sync + 'static,
{
    fn limited_by(self, declaration: Declaration) -> Self {
        self.layer(LimitedLayer::new(declaration))
    }

    fn limited_with<L: Limits + Clone>(self, limits: L) -> Self {
        self.layer(WithLimits(HttpLimitLayer::new(limits).inheriting()))
    }

    fn prioritized(self, priority: Priority) -> Self {
        self.layer(EndpointPriorityLayer::new(priority))
    }
}

/// Provides policies to the handlers of a router.
pub trait LimitRoutes: Sized + private::Sealed {
    /// Limits handlers by their declarations, and handlers without one by the fallback: see the [module](super). Applies to the
    /// routes that the router has so far.
    ///
    /// Takes [`Policies`](plimsoll_policy::Policies), or a [`PolicyLayer`] with more settings.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use plimsoll_policy::Policies;
    /// use plimsoll_tower::declare::{LimitHandlers, LimitRoutes};
    ///
    /// let app: Router = Router::new()
    ///     .route("/search", get(|| async { "found" }).limited(5.0, 2.5))
    ///     .policies(Policies::builder().build()?)
    ///     // Added later, so without a limit.
    ///     .route("/health", get(|| async { "fine" }));
    /// # let _ = app;
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    #[must_use]
    fn policies(self, policies: impl Into<PolicyLayer>) -> Self;
}

impl<S> LimitRoutes for Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    fn policies(self, policies: impl Into<PolicyLayer>) -> Self {
        self.layer(policies.into())
    }
}

mod private {
    /// Routers and method routers.
    pub trait Sealed {}

    impl<S> Sealed for axum::routing::MethodRouter<S> {}
    impl<S> Sealed for axum::Router<S> {}
}
