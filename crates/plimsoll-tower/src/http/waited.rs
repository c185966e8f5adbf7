//! The time that a request has waited for limits.

use std::time::Duration;

use http::Extensions;

use crate::Head;

/// The time that a request has waited so far for limits of this layer and of outer layers, in its extensions.
///
/// It is a duration instead of a moment, because limits may have different clocks.
#[derive(Clone, Copy, Debug)]
struct Waited(Duration);

/// The time that this request has waited so far.
pub(super) fn waited(head: &Head<'_>) -> Duration {
    let waited = head.extensions().get::<Waited>();
    waited.map_or(Duration::ZERO, |waited| waited.0)
}

/// Adds to the time that a request has waited.
pub(super) fn add(extensions: &mut Extensions, longer: Duration) {
    match extensions.get_mut::<Waited>() {
        Some(waited) => waited.0 = waited.0.saturating_add(longer),
        None => {
            extensions.insert(Waited(longer));
        }
    }
}
