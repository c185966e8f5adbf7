//! The leases of a request, for its handler.

use http::Extensions;
use plimsoll::{LeaseState, Lost, Permit};

/// The leases behind the permits of a request: whether they still hold, and their fencing numbers.
///
/// A permit of a limit in memory lasts until it is returned. A permit of a limit that a fleet shares is a *lease* in a
/// store: if the lease cannot be renewed, because the store or the network is down for too long, it expires, and
/// another process may be granted the same permit while this one is still at work. A handler that must not process the
/// same item twice has to check for that.
///
/// [`HttpLimitLayer`](crate::HttpLimitLayer) inserts the leases of its limits, together with those of outer layers, into the
/// extensions of the request. If no limit has leases, nothing is inserted and [`of`](Self::of) returns an empty value, which is
/// never lost: a handler need not know whether its limits are in a store.
///
/// ```
/// use http::Request;
/// use plimsoll_tower::Leases;
///
/// # async fn work(fence: Option<u64>) {}
/// # async fn select<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) {}
/// async fn handler<B>(request: Request<B>) {
///     let leases = Leases::of(request.extensions());
///     // Every write carries the fencing number; the work stops when another process may have started it.
///     select(work(leases.fence()), leases.lost()).await;
/// }
/// ```
///
/// With the feature `axum` it is an extractor: `async fn handler(leases: Leases)`. A [`LimitLayer`](crate::LimitLayer) does
/// not know where a request of any type can hold it, and needs a [closure](crate::LimitLayer::leases).
#[derive(Clone, Default, Debug)]
pub struct Leases(Vec<LeaseState>);

impl Leases {
    /// Returns the leases in the extensions of a request; empty if its permits cannot be lost.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Returns whether at least one lease has expired, so that another process may hold the same permit.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.iter().any(LeaseState::is_lost)
    }

    /// Returns a future that resolves when one of the leases is lost. It never resolves if the permits are returned before that,
    /// or if there are no leases.
    pub fn lost(&self) -> Lost {
        Lost::of(self.0.iter().cloned())
    }

    /// Returns the largest [fencing number](LeaseState::fence) of the leases.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.0.iter().map(LeaseState::fence).max()
    }

    /// Returns the leases, those of the outermost limit first.
    pub fn iter(&self) -> impl Iterator<Item = &LeaseState> {
        self.0.iter()
    }

    pub(crate) fn of_permit(permit: &Permit<'_>) -> Self {
        Self(permit.leases())
    }

    /// Adds the leases of a permit to those that a request has.
    #[inline]
    pub(crate) fn add(permit: &Permit<'_>, extensions: &mut Extensions) {
        // Permits of rates are not returned, and have no leases.
        if permit.gives_back() {
            Self::of_permit(permit).add_to(extensions);
        }
    }

    fn add_to(self, extensions: &mut Extensions) {
        if self.0.is_empty() {
            return;
        }
        match extensions.get_mut::<Self>() {
            Some(outer) => outer.0.extend(self.0),
            None => {
                extensions.insert(self);
            }
        }
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> axum::extract::FromRequestParts<S> for Leases {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _state: &S,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions))
    }
}

/// Adds the leases of a permit to those that a request has, for other crates of this workspace.
#[doc(hidden)]
pub fn add_leases(permit: &Permit<'_>, extensions: &mut Extensions) {
    Leases::add(permit, extensions);
}
