//! How long a request has waited for limits.

use std::time::Duration;

use http::Extensions;

use crate::Head;

/// In the extensions of a request: how long it has waited so far, for limits of this layer and of those further out.
///
/// A span and not a moment: limits may go by different clocks.
#[derive(Clone, Copy, Debug)]
struct Waited(Duration);

/// How long this request has waited so far.
pub(super) fn waited(head: &Head<'_>) -> Duration {
    let waited = head.extensions().get::<Waited>();
    waited.map_or(Duration::ZERO, |waited| waited.0)
}

/// It has waited for so much longer.
pub(super) fn add(extensions: &mut Extensions, longer: Duration) {
    match extensions.get_mut::<Waited>() {
        Some(waited) => waited.0 = waited.0.saturating_add(longer),
        None => {
            extensions.insert(Waited(longer));
        }
    }
}
