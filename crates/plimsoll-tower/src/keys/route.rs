use std::borrow::Cow;

use axum::extract::MatchedPath;

use super::KeyFrom;
use crate::Head;

/// The key is the route that axum's router matched, such as `/items/{id}`.
///
/// Only layers inside the router know it: `route_layer`, or the layer of a handler. Elsewhere, and for requests that
/// match no route, there is no key.
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
