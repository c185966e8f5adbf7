use std::fmt;
use std::sync::Arc;

use plimsoll::{Moment, Outcome, Permit, Priority};

use crate::Method;
use crate::metrics::Meter;
use crate::span::Trail;

/// A [`Permit`] that is counted as long as it is held, and whose time is measured.
///
/// Whatever ends it, it is counted once: finished, dropped, in a panic or by a task that is cancelled.
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct MeteredPermit<'a> {
    /// Dropped first: by the time the next one is granted, this one is no longer counted.
    running: Running<'a>,
    permit: Permit<'a>,
}

impl<'a> MeteredPermit<'a> {
    pub(crate) fn new(
        meter: &'a Arc<Meter>,
        method: Method,
        permit: Permit<'a>,
        trail: Trail,
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
                trail,
            },
            permit,
        }
    }

    /// The permit itself.
    pub fn permit(&self) -> &Permit<'a> {
        &self.permit
    }

    /// Gives the permit back and says how the work went.
    pub fn finish(self, outcome: Outcome) {
        let Self {
            mut running,
            permit,
        } = self;
        running.outcome = outcome;
        drop(running);
        permit.finish(outcome);
    }

    /// As if it had never been granted, even by a rate. See [`Permit::undo`]. The time it was held is still
    /// measured.
    pub fn undo(self) {
        let Self { running, permit } = self;
        drop(running);
        permit.undo();
    }

    /// The same permit, no longer tied to the borrow of its limiter.
    pub fn into_owned(self) -> MeteredPermit<'static> {
        MeteredPermit {
            running: self.running.into_owned(),
            permit: self.permit.into_owned(),
        }
    }

    /// The span of the request, from asking until the permit is given back: enter it to do the work inside.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn span(&self) -> &tracing::Span {
        self.running.trail.span()
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

/// A request that is processed, until it is dropped.
struct Running<'a> {
    /// `None` once another has taken over.
    meter: Option<Owner<'a>>,
    method: Method,
    priority: Priority,
    since: Moment,
    outcome: Outcome,
    trail: Trail,
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
            trail: std::mem::take(&mut self.trail),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            let meter = meter.get();
            // By the same reading of the clock as the beginning: late by the same on average.
            let took = meter.clock.now().nanos_since(self.since);
            self.trail.returned(took, self.outcome);
            meter.cells.of(self.method, self.priority).ends(took);
        }
    }
}
