use std::convert::Infallible;

use axum::Router;
use axum::routing::MethodRouter;
use plimsoll_policy::OpCode;
use plimsoll_policy::Policy;

use super::limited::LimitedLayer;
use super::{Declaration, PolicyLayer};

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
}

impl<S> LimitHandlers for MethodRouter<S, Infallible>
where
    S: Clone + Send + Sync + 'static,
{
    fn limited_by(self, declaration: Declaration) -> Self {
        self.layer(LimitedLayer::new(declaration))
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
