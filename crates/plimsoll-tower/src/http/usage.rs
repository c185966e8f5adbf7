//! What a handler says it has used.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::Extensions;

/// In the extensions of a request: what its body says it will cost. A `JsonCost` (feature `json`) puts it there, and
/// [`cost_by_json`](crate::RequestLimit::cost_by_json) reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyCost(pub u64);

/// In the extensions of a request: how many bytes of its body have passed so far.
#[doc(hidden)]
#[derive(Clone, Default, Debug)]
pub struct BodyBytes(Arc<AtomicU64>);

impl BodyBytes {
    #[cfg(feature = "json")]
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a handler has used of a limit that [reads it](crate::RequestLimit::charge_usage): the tokens of a model, rows,
/// whatever the limit counts.
///
/// The layer puts it into the extensions of the request. A clone is the same count, so it can be moved into a body
/// that is still being written; what it says when the body has ended is charged. Several layers around a handler all
/// see what it has used.
///
/// ```
/// use plimsoll_tower::Usage;
///
/// let usage = Usage::default();
/// usage.clone().add(1200);
/// assert_eq!(usage.total(), 1200);
/// ```
///
/// # Callers that hang up
///
/// A call that is cut short, because its caller hangs up or because it fails, may have used more than it had time
/// to report. It is charged what was reported or what was taken for it beforehand, whichever is more. A handler that knows
/// that its report is complete says so with [`finish`](Self::finish); then the report is charged, however the call ends.
#[derive(Clone, Default)]
pub struct Usage(Arc<Count>);

#[derive(Default)]
struct Count {
    total: AtomicU64,
    is_final: AtomicBool,
    is_unknown: AtomicBool,
    /// The count of the next layer further out.
    outer: Option<Usage>,
}

impl Usage {
    /// The count of a request that may have passed a layer with a count already.
    pub(super) fn inside(extensions: &Extensions) -> Self {
        Self(Arc::new(Count {
            outer: extensions.get().cloned(),
            ..Count::default()
        }))
    }

    fn each(&self, change: impl Fn(&Count)) {
        let mut next = Some(self);
        while let Some(Self(count)) = next {
            change(count);
            next = count.outer.as_ref();
        }
    }

    /// So much more was used.
    pub fn add(&self, amount: u64) {
        let add = |total: u64| Some(total.saturating_add(amount));
        self.each(|count| {
            let _ = (count.total).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        });
    }

    /// What was added is all: from now on a caller that hangs up is charged that, and not the estimate.
    pub fn finish(&self) {
        self.each(|count| count.is_final.store(true, Ordering::Release));
    }

    /// The work is done, and nobody knows what it used: what was taken for it beforehand is charged, or what was added if
    /// that is more.
    pub fn unknown(&self) {
        self.each(|count| count.is_unknown.store(true, Ordering::Release));
    }

    /// Whether what was added is all, given whether the work is done.
    #[doc(hidden)]
    #[must_use]
    pub fn is_known(&self, is_done: bool) -> bool {
        self.is_final() || (is_done && !self.0.is_unknown.load(Ordering::Acquire))
    }

    /// What was used so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Whether the handler has said that this is all.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.0.is_final.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage")
            .field("total", &self.total())
            .field("is_final", &self.is_final())
            .finish()
    }
}
