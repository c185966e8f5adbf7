//! What an endpoint declares, for the layers around it.
//!
//! A router of axum puts a layer around each endpoint by itself, but hides what is inside. Whatever is inside is cloned
//! though, down to the handler. So a layer finds out by cloning what it is put around: whoever declares something says so
//! when it is cloned, to a layer that is [looking](look) on the same thread. That takes place when the router is built,
//! runs no handler, and needs no request.

use std::cell::Cell;
use std::task::{Context, Poll};

use plimsoll::Priority;
use tower_layer::Layer;
use tower_service::Service;

/// What an endpoint declares.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Endpoint {
    /// It has a limit of its own.
    pub(crate) limited: bool,
    pub(crate) priority: Option<Priority>,
}

thread_local! {
    /// What was found so far, while somebody looks.
    static FOUND: Cell<Option<Endpoint>> = const { Cell::new(None) };
}

/// What is declared inside of `service`, as far as cloning it reaches.
pub(crate) fn look<S: Clone>(service: &S) -> Endpoint {
    /// Also if a clone panics.
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

    /// Says so, if anybody looks. What is further out was said before, and counts.
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

/// Gives what it is put around a priority, for layers further out that go by it:
/// [`EndpointPriority`](crate::EndpointPriority).
///
/// Routes of axum have a method for it, [`prioritized`](crate::declare::LimitHandlers::prioritized), and handlers an
/// attribute, [`priority`](macro@crate::priority).
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
#[derive(Clone, Copy, Debug)]
#[must_use = "a layer does nothing until it is put before a service"]
pub struct EndpointPriorityLayer(Priority);

impl EndpointPriorityLayer {
    /// Whatever is inside has this priority.
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

/// A service that declares something. It says so when it is cloned.
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
        // What is cloned while nobody looks is not found later.
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
