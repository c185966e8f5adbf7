use std::fmt;
use std::sync::Arc;

use plimsoll::{Moment, Priority, Reason};

use crate::Method;
use crate::meter::Meter;

/// Counts requests that other code makes to a limiter. [`Metrics::observe`](crate::Metrics::observe) returns one.
///
/// Clones share the counts.
///
/// ```
/// # let mut registry = plimsoll_observe::prometheus_client::registry::Registry::default();
/// use std::sync::Arc;
/// use plimsoll::{Concurrency, Gate, Priority};
/// use plimsoll_observe::Metrics;
///
/// let gate = Arc::new(Gate::new(Concurrency::new(10)));
/// let observer = Metrics::register(&mut registry).observe(&gate)?;
///
/// let mut request = observer.watch("GET", Priority::Normal);
/// let permit = gate.try_acquire(1).unwrap();
/// request.admitted();
/// // Work, until both are dropped.
/// # drop((request, permit));
/// # Ok::<(), plimsoll_observe::InvalidMetrics>(())
/// ```
#[derive(Clone)]
pub struct Observer(Arc<Meter>);

impl Observer {
    pub(crate) const fn new(meter: Arc<Meter>) -> Self {
        Self(meter)
    }

    /// Starts to count a request that is about to ask for a permit.
    pub fn watch(&self, method: impl Into<Method>, priority: Priority) -> Watch {
        Watch {
            meter: Arc::clone(&self.0),
            method: method.into(),
            priority,
            stage: Stage::Asking,
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}

/// One request, from the moment at which it asks for a permit until it ends. [`Observer::watch`] returns one.
///
/// Report each change of the request when it happens. Dropping this ends the request at any stage; it is counted
/// exactly once.
///
/// ```
/// # let mut registry = plimsoll_observe::prometheus_client::registry::Registry::default();
/// use std::sync::Arc;
/// use plimsoll::{Concurrency, Gate, Priority};
/// use plimsoll_observe::Metrics;
///
/// let gate = Arc::new(Gate::new(Concurrency::new(1)));
/// let observer = Metrics::register(&mut registry).observe(&gate)?;
///
/// let mut first = observer.watch("GET", Priority::Normal);
/// let permit = gate.try_acquire(1).unwrap();
/// first.admitted();
///
/// let mut second = observer.watch("GET", Priority::Normal);
/// let denied = gate.try_acquire(1).unwrap_err();
/// second.refused(denied.reason());
///
/// drop((first, permit)); // the first request ends
/// # Ok::<(), plimsoll_observe::InvalidMetrics>(())
/// ```
#[must_use = "a request that is dropped at once is not counted"]
pub struct Watch {
    meter: Arc<Meter>,
    method: Method,
    priority: Priority,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Asking,
    Waiting { since: Moment },
    Running { since: Moment },
    Done,
}

impl Watch {
    /// Records that the request has to wait. Further calls have no effect.
    pub fn waits(&mut self) {
        if self.stage == Stage::Asking {
            self.meter.cells.of(self.method, self.priority).joins();
            let since = self.meter.clock.precise_now();
            self.stage = Stage::Waiting { since };
        }
    }

    /// Records that the request was admitted. Further calls have no effect.
    pub fn admitted(&mut self) {
        if self.is_admitted() || self.stage == Stage::Done {
            return;
        }
        self.end();
        self.meter.cells.of(self.method, self.priority).starts();
        let since = self.meter.clock.now();
        self.stage = Stage::Running { since };
    }

    /// Returns whether the request was admitted and has not ended.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// Records that the request was refused. Further calls have no effect.
    pub fn refused(&mut self, reason: Reason) {
        if self.stage != Stage::Done {
            self.end();
            let cell = self.meter.cells.of(self.method, self.priority);
            cell.refused(reason);
        }
    }

    /// Ends the current stage, and observes its time.
    fn end(&mut self) {
        let cell = self.meter.cells.of(self.method, self.priority);
        let clock = &self.meter.clock;
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Waiting { since } => cell.leaves(clock.precise_now().nanos_since(since)),
            Stage::Running { since } => cell.ends(clock.now().nanos_since(since)),
            Stage::Asking | Stage::Done => {}
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("method", &self.method)
            .field("priority", &self.priority)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}
