use std::fmt;
use std::sync::Arc;

use plimsoll::{Moment, Outcome, Permit, Priority};

use crate::Method;
use crate::meter::Meter;
use crate::span::RequestSpan;

/// A [`Permit`] that is counted while it is held, and whose holding time is measured.
///
/// It is counted exactly once, whether it is finished, or dropped, also by a panic or a cancelled task.
///
/// ```
/// # let mut registry = plimsoll_observe::prometheus_client::registry::Registry::default();
/// use std::sync::Arc;
/// use plimsoll::{Concurrency, Gate, Outcome};
/// use plimsoll_observe::Metrics;
///
/// let gate = Arc::new(Gate::new(Concurrency::new(10)));
/// let metered = Metrics::register(&mut registry).meter(gate).unwrap();
///
/// let permit = metered.try_acquire("POST", 3)?;
/// assert_eq!(permit.permit().cost(), 3);
/// // Owned, it can move into a task.
/// std::thread::spawn({
///     let permit = permit.into_owned();
///     move || permit.finish(Outcome::Success)
/// });
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct MeteredPermit<'a> {
    /// Dropped before the permit, so that the next grant finds this one no longer counted.
    running: Running<'a>,
    permit: Permit<'a>,
}

impl<'a> MeteredPermit<'a> {
    pub(crate) fn new(
        meter: &'a Arc<Meter>,
        method: Method,
        permit: Permit<'a>,
        span: RequestSpan,
    ) -> Self {
        let priority = permit.priority();
        meter.cells.of(method, priority).starts();
        Self {
            running: Running {
                meter: Some(Owner::Borrowed(meter)),
                method,
                priority,
                since: permit.granted_at(),
                outcome: Outcome::Ignore,
                span,
            },
            permit,
        }
    }

    /// Returns the permit itself, to read its cost, its priority and the moment of the grant.
    pub fn permit(&self) -> &Permit<'a> {
        &self.permit
    }

    /// Returns the permit with the outcome of the work, from which an [adaptive](plimsoll::adaptive) limit learns.
    ///
    /// The span of the request, if it is traced, records the outcome too.
    pub fn finish(self, outcome: Outcome) {
        let Self {
            mut running,
            permit,
        } = self;
        running.outcome = outcome;
        drop(running);
        permit.finish(outcome);
    }

    /// Refunds the permit, even to a rate. See [`Permit::undo`]. The holding time is still measured.
    ///
    /// ```
    /// # let mut registry = plimsoll_observe::prometheus_client::registry::Registry::default();
    /// use std::sync::Arc;
    /// use plimsoll::{Gate, ManualClock, TokenBucket};
    /// use plimsoll_observe::Metrics;
    ///
    /// let rate = Gate::builder(TokenBucket::per_second(5)).clock(ManualClock::new().clock()).build();
    /// let metered = Metrics::register(&mut registry).meter(Arc::new(rate)).unwrap();
    /// metered.try_acquire("GET", 5)?.undo();
    /// assert_eq!(metered.limiter().snapshot().available(), 5);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub fn undo(self) {
        let Self { running, permit } = self;
        drop(running);
        permit.undo();
    }

    /// Returns the same permit without the borrow of its limiter, for a task or a struct.
    ///
    /// It counts as one request, as before.
    pub fn into_owned(self) -> MeteredPermit<'static> {
        MeteredPermit {
            running: self.running.into_owned(),
            permit: self.permit.into_owned(),
        }
    }

    /// Returns the span of the request, which ends when the permit is returned. Enter it to trace the work as part of
    /// the request.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn span(&self) -> &tracing::Span {
        self.running.span.span()
    }
}

impl fmt::Debug for MeteredPermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredPermit")
            .field("method", &self.running.method)
            .field("permit", &self.permit)
            .finish_non_exhaustive()
    }
}

/// A request that is being processed, until this is dropped.
struct Running<'a> {
    /// `None` once [`into_owned`](Self::into_owned) has moved it.
    meter: Option<Owner<'a>>,
    method: Method,
    priority: Priority,
    since: Moment,
    outcome: Outcome,
    span: RequestSpan,
}

enum Owner<'a> {
    Borrowed(&'a Arc<Meter>),
    Shared(Arc<Meter>),
}

impl Owner<'_> {
    fn get(&self) -> &Arc<Meter> {
        match self {
            Self::Borrowed(meter) => meter,
            Self::Shared(meter) => meter,
        }
    }
}

impl Running<'_> {
    fn into_owned(mut self) -> Running<'static> {
        let meter = self.meter.take();
        Running {
            meter: meter.map(|meter| Owner::Shared(Arc::clone(meter.get()))),
            method: self.method,
            priority: self.priority,
            since: self.since,
            outcome: self.outcome,
            span: std::mem::take(&mut self.span),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            let meter = meter.get();
            // The same kind of reading as for `granted_at`, which is late by the same amount on average.
            let took = meter.clock.now().nanos_since(self.since);
            self.span.returned(took, self.outcome);
            meter.cells.of(self.method, self.priority).ends(took);
        }
    }
}
