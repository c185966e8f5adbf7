//! Usage that a handler reports.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::Extensions;

/// The cost of a request according to its body, in the extensions of the request. A `JsonCost` (feature `json`) inserts it, and
/// [`cost_by_json`](crate::RequestLimit::cost_by_json) reads it.
///
/// A layer of your own can insert it as well, for bodies in another format:
///
/// ```
/// use http::Request;
/// use plimsoll_tower::BodyCost;
///
/// let mut request = Request::new(vec![0_u8; 4096]);
/// let cost = BodyCost(request.body().len() as u64 / 1024);
/// request.extensions_mut().insert(cost);
/// assert_eq!(request.extensions().get(), Some(&BodyCost(4)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyCost(pub u64);

/// The number of bytes of the request body that have passed so far, in the extensions of the request.
#[doc(hidden)]
#[derive(Clone, Default, Debug)]
pub struct BodyBytes(Arc<AtomicU64>);

impl BodyBytes {
    #[cfg(feature = "json")]
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The usage of a request, reported by its handler to limits that [charge it](crate::RequestLimit::charge_usage): tokens of a
/// model, rows, or another unit that the limit counts.
///
/// The layer inserts it into the extensions of the request. A clone is the same count, so it can be moved into a body that is
/// still being written; the total is charged when the body has ended. If several layers around a handler charge usage, all of
/// them see the same reports.
///
/// ```
/// use plimsoll_tower::Usage;
///
/// let usage = Usage::default();
/// usage.clone().add(1200);
/// assert_eq!(usage.total(), 1200);
/// ```
///
/// # Callers that disconnect
///
/// A call that is cut short, because its caller disconnects or because it fails, may have used more than it could report. It is
/// charged the reported usage or the cost that was taken beforehand, whichever is more. A handler that knows that its report is
/// complete marks it with [`finish`](Self::finish); then the report is charged, however the call ends.
///
/// # With axum
///
/// The handler takes it out of the extensions, which needs no feature:
///
/// ```
/// use axum::Extension;
/// use plimsoll_tower::Usage;
///
/// async fn complete(usage: Option<Extension<Usage>>) -> &'static str {
///     if let Some(Extension(usage)) = usage {
///         usage.add(12);
///         usage.finish();
///     }
///     "twelve tokens"
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::get(complete);
/// ```
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
    /// The count of a request that may already have one from an outer layer.
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

    /// Adds `amount`. The total saturates.
    ///
    /// ```
    /// use plimsoll_tower::Usage;
    ///
    /// async fn stream(usage: Usage) {
    ///     for tokens in [12, 7, 30] {
    ///         // A caller that disconnects here is charged what was sent so far, or the estimate if that is more.
    ///         usage.add(tokens);
    ///     }
    ///     usage.finish();
    /// }
    /// ```
    pub fn add(&self, amount: u64) {
        let add = |total: u64| Some(total.saturating_add(amount));
        self.each(|count| {
            let _ = (count.total).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        });
    }

    /// Marks the usage as complete. From then on, a caller that disconnects is charged the usage and not the estimate.
    ///
    /// ```
    /// use plimsoll_tower::Usage;
    ///
    /// let usage = Usage::default();
    /// usage.add(300);
    /// assert!(!usage.is_final());
    /// usage.finish();
    /// assert!(usage.is_final());
    /// ```
    pub fn finish(&self) {
        self.each(|count| count.is_final.store(true, Ordering::Release));
    }

    /// Marks the usage as unknown although the work is done: the cost taken beforehand is charged, or the total if that is more.
    ///
    /// Use it in handlers that forward to a service which does not always report its usage.
    pub fn unknown(&self) {
        self.each(|count| count.is_unknown.store(true, Ordering::Release));
    }

    /// Returns whether the total is the whole usage, given whether the work is done.
    #[doc(hidden)]
    #[must_use]
    pub fn is_known(&self, is_done: bool) -> bool {
        self.is_final() || (is_done && !self.0.is_unknown.load(Ordering::Acquire))
    }

    /// Returns the total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Returns whether the handler has marked the usage as [complete](Self::finish). A later [`add`](Self::add) still
    /// counts.
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
