//! Metadata of the limits that admitted a request, for its handler.

use http::Extensions;
use plimsoll::{Metadata, MetadataValue};

/// The [metadata](Metadata) of the limits that admitted a request. For refused requests the same metadata is part of the
/// problem in the response.
///
/// [`HttpLimitLayer`](crate::HttpLimitLayer) inserts the metadata of its limits, together with that of outer layers, into the
/// extensions of the request. If no limit has metadata, nothing is inserted.
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
    /// Returns the metadata in the extensions of a request; empty if no limit has any.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Returns the value with this name, from the first limit that has it: a pair, or [`Metadata::CODE`].
    #[must_use]
    pub fn get(&self, name: &str) -> Option<MetadataValue<'_>> {
        self.iter().find_map(|(_, metadata)| metadata.get(name))
    }

    /// Returns the names of the limits and their metadata, the outermost first. The name of an unnamed limit is empty.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Metadata)> {
        self.0.iter().map(|(limit, metadata)| (&**limit, metadata))
    }

    /// Adds the metadata of a limit. Also used by other crates of this workspace.
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
