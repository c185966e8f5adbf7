use std::borrow::Cow;

use axum::extract::MatchedPath;

use super::KeyFrom;
use crate::Head;

/// The key is the route that axum's router matched, such as `/items/{id}`.
///
/// Only layers inside the router know it: `route_layer`, or the layer of a handler. Requests in layers around the router, and
/// requests that match no route, have no key.
///
/// ```
/// use axum::{Router, routing::get};
/// use plimsoll::{Concurrency, Keyed};
/// use plimsoll_tower::keys::MatchedRoute;
/// use plimsoll_tower::{HttpLimitLayer, RequestLimit};
///
/// // At most 10 requests at once on each route.
/// let per_route: Keyed<String, _> = Keyed::new(Concurrency::new(10));
/// let app: Router = Router::new()
///     .route("/items/{id}", get(|| async { "item" }))
///     .route_layer(HttpLimitLayer::new(RequestLimit::by_key(per_route, MatchedRoute)));
/// # let _ = app;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MatchedRoute;

impl KeyFrom for MatchedRoute {
    type Key = str;

    fn is_of_caller(&self) -> bool {
        false
    }

    fn key<'r>(&self, head: &Head<'r>) -> Option<Cow<'r, str>> {
        let matched = head.extensions().get::<MatchedPath>()?;
        Some(Cow::Borrowed(matched.as_str()))
    }
}
