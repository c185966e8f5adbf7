//! The leases behind a request, for whoever works on it.

use http::Extensions;
use plimsoll::{LeaseState, Lost, Permit};

/// The leases behind the permits of a request: whether they still hold, and their fencing numbers.
///
/// A permit of a limit in memory lasts until it is returned. A permit of a limit that a fleet shares is a *lease* in a
/// store: if the lease cannot be renewed, because the store or the network is down for too long, it expires, and another
/// process may be granted the same permit while this one is still at work. A handler that must not work twice on the same
/// thing needs to know.
///
/// [`HttpLimitLayer`](crate::HttpLimitLayer) puts the leases of all its limits, and of the layers around it, into the
/// extensions of the request. Where none of the limits has leases, nothing is inserted and [`of`](Self::of) returns an empty
/// value, which is never lost: handlers need not know where the limits are kept.
///
/// ```
/// use http::Request;
/// use plimsoll_tower::Leases;
///
/// # async fn work(fence: Option<u64>) {}
/// # async fn select<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) {}
/// async fn handler<B>(request: Request<B>) {
///     let leases = Leases::of(request.extensions());
///     // Whatever is written carries the fencing number; work stops when somebody else may have begun it.
///     select(work(leases.fence()), leases.lost()).await;
/// }
/// ```
///
/// With the feature `axum` it is an extractor: `async fn handler(leases: Leases)`. A [`LimitLayer`](crate::LimitLayer) does
/// not know where a request of any type has room for it, and [has to be set](crate::LimitLayer::leases).
#[derive(Clone, Default, Debug)]
pub struct Leases(Vec<LeaseState>);

impl Leases {
    /// The leases of a request with these extensions; empty if its permits cannot be lost.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Whether one of them has expired, so that another process may hold the same permit by now.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.iter().any(LeaseState::is_lost)
    }

    /// Resolves when one of them is lost. Never resolves if none is before the permits are returned, or if there are none.
    pub fn lost(&self) -> Lost {
        Lost::of(self.0.iter().cloned())
    }

    /// The largest [fencing number](LeaseState::fence) of them; that of the only one if there is one.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.0.iter().map(LeaseState::fence).max()
    }

    /// Each of them, those of the outermost limit first.
    pub fn iter(&self) -> impl Iterator<Item = &LeaseState> {
        self.0.iter()
    }

    pub(crate) fn of_permit(permit: &Permit<'_>) -> Self {
        Self(permit.leases())
    }

    /// Adds the leases of a permit to those that a request has.
    #[inline]
    pub(crate) fn add(permit: &Permit<'_>, extensions: &mut Extensions) {
        // A lease is returned: permits of rates need no second look.
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
