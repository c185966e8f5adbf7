//! The code that the attributes [`limit`](crate::limit) and [`priority`](macro@crate::priority) generate calls this module.

use std::any::Any;
use std::fmt;
use std::future::{Future, ready};
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use plimsoll::{Keyed, KeyedBuilder, Priority, Rule};
use tower_layer::Layer;
use tower_service::Service;

use super::Declaration;
use crate::endpoint::Endpoint;
use crate::{ByKey, Head, HttpLimit, HttpLimitLayer, KeyFrom, Limits, RequestLimit};

/// The future of a handler in axum.
#[doc(hidden)]
pub type HandlerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler with an attribute: its declaration, and how it is called.
#[doc(hidden)]
pub struct Attributed {
    declares: Endpoint,
    /// The limits, as an [`HttpLimit`] around an empty service, made when they are first needed.
    limits: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Attributed {
    /// Declares whether the handler has a limit of its own.
    #[must_use]
    pub const fn new(is_limited: bool) -> Self {
        let mut declares = Endpoint::LIMITED;
        declares.limited = is_limited;
        Self {
            declares,
            limits: OnceLock::new(),
        }
    }

    /// Declares the priority.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.declares = self.declares.priority(priority);
        self
    }

    /// Reports the declaration to a layer that is looking for one. Called when the handler is cloned.
    pub fn show(&self) {
        self.declares.show();
    }

    /// Calls the handler if its policy admits the request.
    pub fn by_policy<H, T, S>(
        &self,
        declaration: &Declaration,
        handler: H,
        request: Request,
        state: S,
    ) -> HandlerFuture
    where
        H: Handler<T, S, Future = HandlerFuture>,
    {
        match declaration.admit(&Head::of(&request)) {
            Ok(()) => handler.call(request, state),
            Err(refusal) => Box::pin(ready(refusal.map(Body::from))),
        }
    }

    /// Calls the handler when its limits have granted the request, and holds the permits until its response has been sent.
    pub fn by_limits<L, H, T, S>(
        &self,
        limits: fn() -> L,
        handler: H,
        request: Request,
        state: S,
    ) -> HandlerFuture
    where
        L: Limits + Clone,
        H: Handler<T, S, Future = HandlerFuture>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        let known = self.limits.get_or_init(|| {
            let layer = HttpLimitLayer::new(limits()).inheriting();
            let layer = match self.declares.priority {
                Some(priority) => layer.priority(priority),
                None => layer,
            };
            Arc::new(layer.layer(()))
        });
        let Some(known) = known.downcast_ref::<HttpLimit<(), L>>() else {
            unreachable!("a handler has limits of one type")
        };
        let called = known.around(handler.with_state(state)).call(request);
        Box::pin(async move {
            let Ok(response) = called.await;
            response.map(Body::new)
        })
    }
}

/// Returns a limit by this key.
#[doc(hidden)]
pub fn by_key<K, R>(
    key: K,
    set: impl FnOnce(KeyedBuilder<Owned<K>, R>) -> KeyedBuilder<Owned<K>, R>,
    rule: R,
) -> RequestLimit<Keyed<Owned<K>, R>, ByKey<K>>
where
    K: KeyFrom<Key: Hash + Eq + Sync>,
    Owned<K>: Hash + Eq + Send + Sync,
    R: Rule + Clone,
{
    RequestLimit::by_key(set(Keyed::builder(rule)).build(), key)
}

/// The owned form of a key.
type Owned<K> = <<K as KeyFrom>::Key as ToOwned>::Owned;

impl fmt::Debug for Attributed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributed")
            .field("declares", &self.declares)
            .finish_non_exhaustive()
    }
}
