//! What limits say about themselves to whoever works on a request that they admitted.

use http::Extensions;
use plimsoll::{Metadata, MetadataValue};

/// The [metadata](Metadata) of the limits that admitted a request: what a refusal says in its problem, for requests that are
/// not refused.
///
/// [`HttpLimitLayer`](crate::HttpLimitLayer) puts that of all its limits that have any, and of the layers around it, into the
/// extensions of the request. Where none has, nothing is inserted.
///
/// ```
/// use http::Request;
/// use plimsoll_tower::GrantMetadata;
///
/// async fn handler<B>(request: Request<B>) -> String {
///     let granted = GrantMetadata::of(request.extensions());
///     granted.get("plan").map_or("free".to_owned(), |plan| plan.to_string())
/// }
/// ```
///
/// With the feature `axum` it is an extractor: `async fn handler(granted: GrantMetadata)`.
#[derive(Clone, Default, Debug)]
pub struct GrantMetadata(Vec<(Box<str>, Metadata)>);

impl GrantMetadata {
    /// What the limits of a request with these extensions say; empty if none of them says anything.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// The value of this name, of the first limit that has it: of a pair, or [`Metadata::CODE`].
    #[must_use]
    pub fn get(&self, name: &str) -> Option<MetadataValue<'_>> {
        self.iter().find_map(|(_, metadata)| metadata.get(name))
    }

    /// The names of the limits, and what each says, the outermost first. The name is empty for a limit without one.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Metadata)> {
        self.0.iter().map(|(limit, metadata)| (&**limit, metadata))
    }

    /// Adds what a limit says, for other crates of this workspace too.
    #[doc(hidden)]
    #[cold]
    pub fn add(limit: &str, metadata: &Metadata, extensions: &mut Extensions) {
        let said = (limit.into(), metadata.clone());
        match extensions.get_mut::<Self>() {
            Some(outer) => outer.0.push(said),
            None => {
                extensions.insert(Self(vec![said]));
            }
        }
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> axum::extract::FromRequestParts<S> for GrantMetadata {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _state: &S,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions))
    }
}
