use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use axum::extract::MatchedPath;
use http::Method;

use crate::Head;
use crate::keys::KNOWN;

/// Which routes have handlers that declare something, as far as requests have shown.
///
/// Bounded by the routes of the router: paths are those it matches, not those that are asked for.
#[derive(Default, Debug)]
pub(super) struct DeclaredRoutes(RwLock<HashMap<Box<str>, u16>>);

impl DeclaredRoutes {
    pub(super) fn contains(&self, head: &Head<'_>) -> bool {
        let Some(path) = head.extensions().get::<MatchedPath>() else {
            return false;
        };
        let routes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let methods = routes.get(path.as_str());
        methods.is_some_and(|methods| methods & bit(head.method()) != 0)
    }

    /// A handler that declares something was reached.
    pub(super) fn add(&self, head: &Head<'_>) {
        if self.contains(head) {
            return;
        }
        let Some(path) = head.extensions().get::<MatchedPath>() else {
            return;
        };
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *routes.entry(path.as_str().into()).or_default() |= bit(head.method());
    }
}

/// A bit for each method that a router tells apart, and one for all others.
fn bit(method: &Method) -> u16 {
    let known = KNOWN.iter().position(|known| known == method);
    1 << known.unwrap_or(KNOWN.len())
}
