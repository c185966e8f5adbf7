//! The priority of a request.

use std::fmt;
use std::sync::Arc;

use http::header::InvalidHeaderName;
use http::{HeaderName, HeaderValue};
use plimsoll::Priority;

use crate::Head;

/// Determines the priority of a request.
///
/// Implemented by [`Priority`], which gives all requests the same priority, by [`PriorityHeader`] and [`EndpointPriority`], and
/// by closures, for instance to read a value that an outer layer has inserted:
///
/// ```
/// use plimsoll::Priority;
/// use plimsoll_tower::{Head, PriorityFrom};
///
/// let known = |head: &Head<'_>| head.extensions().get().copied().unwrap_or_default();
///
/// let request = http::Request::get("/").extension(Priority::Critical).body(())?;
/// assert_eq!(known.priority(&Head::of(&request)), Priority::Critical);
/// # Ok::<(), http::Error>(())
/// ```
pub trait PriorityFrom: Send + Sync + 'static {
    /// Returns the priority of a request.
    fn priority(&self, head: &Head<'_>) -> Priority;

    /// Returns the source of the priority at an endpoint, if it depends on what the endpoint declares.
    #[doc(hidden)]
    fn at_endpoint(
        &self,
        declares: &dyn Fn() -> Option<Priority>,
    ) -> Option<Arc<dyn PriorityFrom>> {
        let _ = declares;
        None
    }
}

impl PriorityFrom for Priority {
    fn priority(&self, _head: &Head<'_>) -> Priority {
        *self
    }
}

impl<F> PriorityFrom for F
where
    F: Fn(&Head<'_>) -> Priority + Send + Sync + 'static,
{
    fn priority(&self, head: &Head<'_>) -> Priority {
        self(head)
    }
}

/// A source that takes the priority from the declaration of the endpoint.
///
/// A handler declares its priority with the attribute [`priority`](macro@crate::priority), a route of axum with the method
/// [`prioritized`](crate::declare::LimitHandlers::prioritized), any service with an
/// [`EndpointPriorityLayer`](crate::EndpointPriorityLayer). Requests to an endpoint without a declaration have
/// [`Priority::Normal`], or the priority from [another source](Self::or).
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, routing::get};
/// use plimsoll::Priority;
/// use plimsoll_tower::declare::LimitHandlers;
/// use plimsoll_tower::{EndpointPriority, PriorityHeader, load_shedding, priority};
///
/// #[priority(critical)]
/// async fn checkout() {}
///
/// let by_endpoint = EndpointPriority::new().or(PriorityHeader::default());
/// let app: Router = Router::new()
///     .route("/checkout", get(checkout))
///     .route("/thumbnails", get(|| async {}).prioritized(Priority::NonCritical))
///     .route("/", get(|| async { "as the header says" }))
///     .layer(load_shedding().priority(by_endpoint));
/// # let _ = app;
/// # }
/// ```
///
/// # Which declarations a layer sees
///
/// A layer reads the declaration when it is applied to an endpoint, not for each request. `Router::layer` of axum applies a
/// layer to each endpoint. A layer around a whole router sees no declaration, nor does a layer around a service that shares
/// the endpoint instead of cloning it, such as a buffer.
#[derive(Clone, Default)]
pub struct EndpointPriority {
    otherwise: Option<Arc<dyn PriorityFrom>>,
}

impl EndpointPriority {
    /// Uses [`Priority::Normal`] for endpoints without a declaration.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses the priority from `from` for endpoints without a declaration.
    #[must_use]
    pub fn or(mut self, from: impl PriorityFrom) -> Self {
        self.otherwise = Some(Arc::new(from));
        self
    }
}

impl PriorityFrom for EndpointPriority {
    fn priority(&self, head: &Head<'_>) -> Priority {
        let from = self.otherwise.as_ref();
        from.map_or(Priority::Normal, |from| from.priority(head))
    }

    fn at_endpoint(
        &self,
        declares: &dyn Fn() -> Option<Priority>,
    ) -> Option<Arc<dyn PriorityFrom>> {
        match declares() {
            Some(priority) => Some(Arc::new(priority)),
            None => self.otherwise.clone(),
        }
    }
}

impl fmt::Debug for EndpointPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointPriority").finish_non_exhaustive()
    }
}

/// A source that reads the priority from a header field. The default field is `x-priority`.
///
/// The sender of the header chooses its priority. If clients are not trusted, a proxy must remove the header.
///
/// The values are `critical`, `normal` and `non-critical`, also written `noncritical`; case and surrounding whitespace are
/// ignored. Any other value means normal, including numbers and lists, which some readers of this header interpret as an index.
/// If the field is repeated with different values, the priority is normal.
///
/// ```
/// use plimsoll::Priority;
/// use plimsoll_tower::{Head, PriorityFrom, PriorityHeader};
///
/// let request = http::Request::get("/").header("X-Priority", "non-critical").body(())?;
/// let head = Head::of(&request);
/// assert_eq!(PriorityHeader::default().priority(&head), Priority::NonCritical);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriorityHeader(HeaderName);

impl PriorityHeader {
    /// Reads the field with this name.
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self(name)
    }

    /// Reads the field with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if `name` is not a valid name of a header field.
    pub fn named(name: &str) -> Result<Self, InvalidHeaderName> {
        name.parse().map(Self)
    }
}

impl Default for PriorityHeader {
    fn default() -> Self {
        Self(HeaderName::from_static("x-priority"))
    }
}

impl PriorityFrom for PriorityHeader {
    fn priority(&self, head: &Head<'_>) -> Priority {
        let mut lines = head.headers().get_all(&self.0).iter().map(named_by);
        let Some(first) = lines.next() else {
            return Priority::Normal;
        };
        if lines.all(|line| line == first) {
            first
        } else {
            Priority::Normal
        }
    }
}

/// The priority that one line names.
fn named_by(value: &HeaderValue) -> Priority {
    let word = value.as_bytes().trim_ascii();
    if word.eq_ignore_ascii_case(b"critical") {
        Priority::Critical
    } else if word.eq_ignore_ascii_case(b"non-critical")
        || word.eq_ignore_ascii_case(b"noncritical")
    {
        Priority::NonCritical
    } else {
        Priority::Normal
    }
}
