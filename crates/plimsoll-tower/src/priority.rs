//! Who goes first, as the request says.

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
