//! The limits and priorities that an endpoint declares, for the layers around it.
//!
//! A router of axum applies a layer to each endpoint separately, but hides the type of the endpoint. It clones the endpoint
//! though, down to the handler. A layer therefore detects declarations by cloning the service that it is applied to: a service
//! that declares something reports so when it is cloned, to a layer that is [looking](look) on the same thread. This happens
//! when the router is built, runs no handler, and needs no request.

use std::cell::Cell;
use std::task::{Context, Poll};

use plimsoll::Priority;
use tower_layer::Layer;
use tower_service::Service;

/// The declarations of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Endpoint {
    /// Whether it has a limit of its own.
    pub(crate) limited: bool,
    pub(crate) priority: Option<Priority>,
}

thread_local! {
    /// The declarations found so far, while a layer looks.
    static FOUND: Cell<Option<Endpoint>> = const { Cell::new(None) };
}

/// Returns the declarations inside of `service`, as far as cloning it reaches.
pub(crate) fn look<S: Clone>(service: &S) -> Endpoint {
    /// Restores the state also if a clone panics.
    struct Looking(Option<Endpoint>);
    impl Drop for Looking {
        fn drop(&mut self) {
            FOUND.set(self.0);
        }
    }
    let _before = Looking(FOUND.replace(Some(Endpoint::default())));
    drop(service.clone());
    FOUND.get().unwrap_or_default()
}

impl Endpoint {
    /// With a limit of its own.
    #[cfg(any(feature = "axum", test))]
    pub(crate) const LIMITED: Self = Self {
        limited: true,
        priority: None,
    };

    /// With this priority.
    #[must_use]
    pub(crate) const fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Reports the declaration to a layer that is looking for one. An outer declaration was reported before, and takes
    /// precedence.
    #[inline]
    pub(crate) fn show(self) {
        if let Some(found) = FOUND.get() {
            FOUND.set(Some(Self {
                limited: found.limited || self.limited,
                priority: found.priority.or(self.priority),
            }));
        }
    }
}

/// Declares the priority of a service, for outer layers that read it with [`EndpointPriority`](crate::EndpointPriority).
///
/// For routes of axum, use the method [`prioritized`](crate::declare::LimitHandlers::prioritized); for handlers, the
/// attribute [`priority`](macro@crate::priority). If a service and a service inside it both declare a priority, the
/// outer declaration counts.
///
/// ```
/// use plimsoll::Priority;
/// use plimsoll_tower::{EndpointPriority, EndpointPriorityLayer, load_shedding};
/// use tower::{ServiceBuilder, service_fn};
///
/// # async fn pay(_: http::Request<String>) -> Result<http::Response<String>, std::convert::Infallible> { Ok(http::Response::default()) }
/// let service = ServiceBuilder::new()
///     .layer(load_shedding().priority(EndpointPriority::new()))
///     .layer(EndpointPriorityLayer::new(Priority::Critical))
///     .service(service_fn(pay));
/// # let _ = service;
/// ```
///
/// It costs nothing per request: the declaration is read once, when the outer layer is applied.
#[derive(Clone, Copy, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct EndpointPriorityLayer(Priority);

impl EndpointPriorityLayer {
    /// Declares this priority for the inner service.
    /// Layers further out see it if they are applied after this one.
    /// An [`EndpointPriority`](crate::EndpointPriority) of an outer layer returns it for all requests to this endpoint.
    pub const fn new(priority: Priority) -> Self {
        Self(priority)
    }
}

impl<S> Layer<S> for EndpointPriorityLayer {
    type Service = Declared<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let declares = Endpoint::default().priority(self.0);
        Declared { inner, declares }
    }
}

/// A service with a declaration, which it reports when it is cloned. Its calls go to the inner service unchanged.
#[derive(Debug)]
#[doc(hidden)]
pub struct Declared<S> {
    inner: S,
    declares: Endpoint,
}

#[cfg(feature = "axum")]
impl<S> Declared<S> {
    pub(crate) const fn limited(inner: S) -> Self {
        let declares = Endpoint::LIMITED;
        Self { inner, declares }
    }
}

impl<S: Clone> Clone for Declared<S> {
    fn clone(&self) -> Self {
        self.declares.show();
        Self {
            inner: self.inner.clone(),
            declares: self.declares,
        }
    }
}

impl<S: Service<Request>, Request> Service<Request> for Declared<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request) -> Self::Future {
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use plimsoll::Priority::{Critical, NonCritical};

    use super::{Endpoint, EndpointPriorityLayer, Layer, look};

    #[test]
    fn the_outermost_priority_counts_and_nobody_else_is_told() {
        let inner = EndpointPriorityLayer::new(NonCritical).layer(());
        assert_eq!(look(&inner).priority, Some(NonCritical));
        let outer = EndpointPriorityLayer::new(Critical).layer(inner);
        assert_eq!(look(&outer).priority, Some(Critical));
        // A clone that is made while no layer looks is not found later.
        drop(outer.clone());
        assert_eq!(look(&()), Endpoint::default());
    }

    #[test]
    fn a_clone_that_panics_ends_the_look() {
        struct Panics;
        impl Clone for Panics {
            fn clone(&self) -> Self {
                Endpoint::LIMITED.show();
                panic!("on purpose")
            }
        }
        assert!(catch_unwind(AssertUnwindSafe(|| look(&Panics))).is_err());
        Endpoint::LIMITED.show();
        assert_eq!(look(&()), Endpoint::default());
    }
}
