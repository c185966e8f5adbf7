//! Who goes first, as the request says.

use std::fmt;
use std::sync::Arc;

use http::header::InvalidHeaderName;
use http::{HeaderName, HeaderValue};
use plimsoll::Priority;

use crate::Head;

/// Says how much a request matters.
///
/// A [`Priority`] is one: everything that comes this way has it. So is a closure, for everything else, for
/// instance for what a layer further out has found out:
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
    /// The priority of this request.
    fn priority(&self, head: &Head<'_>) -> Priority;

    /// What says the priority at an endpoint, if it depends on what the endpoint `declares`.
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

/// The priority that the endpoint declares.
///
/// A handler declares it by the attribute [`priority`](macro@crate::priority), a route of axum by
/// the method [`prioritized`](crate::declare::LimitHandlers::prioritized), any service by an
/// [`EndpointPriorityLayer`](crate::EndpointPriorityLayer).
/// Requests for endpoints that declare none are normal, or as something [else](Self::or) says.
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
/// # What a layer sees
///
/// What is declared is found out when the layer is put around an endpoint, not by requests. `Router::layer` of axum puts a
/// layer around each endpoint. A layer around a whole router, or around an endpoint behind something that shares it
/// instead of cloning it, as a buffer does, sees nothing declared.
#[derive(Clone, Default)]
pub struct EndpointPriority {
    otherwise: Option<Arc<dyn PriorityFrom>>,
}

impl EndpointPriority {
    /// Normal for endpoints that declare nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As this says for endpoints that declare nothing.
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

/// The priority from a header field, `x-priority` unless another is named.
///
/// Whoever writes the header chooses the priority. Where requests come from strangers, something in front has
/// to remove it.
///
/// Its values are `critical`, `normal` and `non-critical`, also written `noncritical`. Case does not matter, nor do blanks
/// around it. Everything else is normal: numbers and lists too, which some readers of this header take for a place in an
/// array. If the field is repeated and the lines do not agree, the priority is normal.
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
    /// Reads the field of this name.
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        Self(name)
    }

    /// Reads the field of this name.
    ///
    /// # Errors
    ///
    /// If no header field can be called that.
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
