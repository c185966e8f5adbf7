use std::convert::Infallible;

use axum::Router;
use axum::routing::MethodRouter;
use plimsoll::Priority;
use plimsoll_policy::{OpCode, Policy};

use super::limited::{LimitedLayer, WithLimits};
use super::{Declaration, PolicyLayer};
use crate::{EndpointPriorityLayer, HttpLimitLayer, Limits};

/// Declares limits where handlers are put into a router.
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
/// The limit holds for all methods that are there when it is declared, together. For one limit for each, declare
/// each and merge them: `get(a).limited(5.0, 2.5).merge(post(b).limited(1.0, 1.0))`.
pub trait LimitHandlers: Sized + private::Sealed {
    /// So many requests a second from each address, and so many at once. What is not positive means what it means to
    /// a [`Policy`].
    #[must_use]
    fn limited(self, rps: f64, burst: f64) -> Self {
        let policy = Policy::per_second(rps).burst(burst);
        self.limited_by(Declaration::new("declared", policy))
    }

    /// Limited by the policy that was declared for this operation when the policies were
    /// [built](plimsoll_policy::PoliciesBuilder::handler); if none was, by the fallback.
    #[must_use]
    fn limited_as(self, op: impl Into<OpCode>) -> Self {
        self.limited_by(Declaration::operation(op.into()))
    }

    /// Limited by this declaration, which can have a name.
    #[must_use]
    fn limited_by(self, declaration: Declaration) -> Self;

    /// Limited by any limit, or by a pair of them, in the place of the fallback. Refusals are answered as the
    /// [policies](PolicyLayer::answer) around it say, if there are any.
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

    /// Requests for it have this priority, to layers further out that go by an
    /// [`EndpointPriority`](crate::EndpointPriority).
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

/// Provides the declarations of a router's handlers with policies.
pub trait LimitRoutes: Sized + private::Sealed {
    /// Limits handlers by what they declare, and those that declare nothing by the fallback: see the
    /// [module](super). Holds for all routes that are there already.
    ///
    /// Takes [`Policies`](plimsoll_policy::Policies), or a [`PolicyLayer`] with more to set.
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
    /// What a router is made of.
    pub trait Sealed {}

    impl<S> Sealed for axum::routing::MethodRouter<S> {}
    impl<S> Sealed for axum::Router<S> {}
}
