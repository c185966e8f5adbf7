use std::fmt;

use plimsoll::{Event, EventKind, Events};

use crate::cells::priority_word;

/// Forwards the events of a limiter to `tracing`.
///
/// Every event has the target `plimsoll`, its kind as the message, and these fields: `limiter`; `at`, its time in
/// nanoseconds on the clock of the limiter; `limit`, `in_use`, `queue_bound` and `queued` right after it; and, if they
/// apply, `priority`, `waited` and `took` in seconds, `outcome` and `reason`.
///
/// | level | kind |
/// |---|---|
/// | debug | `enqueued`, `dequeued`, `processing`, `processed` |
/// | info | `limit_changed`, `queue_bound_changed` |
/// | warn | `rejected`; `missed`, with the number of events that were lost because the buffer was full |
///
/// Events are forwarded when [`forward`](Self::forward) is called. Call it at the interval at which you want to see them:
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_observe::Trace;
///
/// let gate = Gate::builder(Concurrency::new(1)).name("api").build();
/// let mut trace = Trace::new(gate.subscribe(10_000), "api");
/// // In a task of its own: `loop { trace.forward(); interval.tick().await; }`
/// assert_eq!(trace.forward(), 1); // `limit_changed`, which every new subscriber gets
/// drop(gate.try_acquire(1));
/// assert_eq!(trace.forward(), 2); // `processing`, `processed`
/// ```
///
/// A limiter with a subscriber decides on its slow path, under a lock. If that costs too much, use the spans of
/// [`Metered`](crate::Metered) instead, or subscribe only during an investigation.
pub struct Trace {
    events: Events,
    limiter: Box<str>,
    /// The number of missed events that were reported.
    missed: u64,
}

/// One event at one level: `tracing` fixes the level of a call site.
macro_rules! forward {
    ($level:ident, $limiter:expr, $event:expr, $kind:expr, $fields:expr) => {
        tracing::event!(
            target: "plimsoll",
            tracing::Level::$level,
            limiter = $limiter,
            at = $event.at.as_nanos(),
            limit = $event.limit,
            in_use = $event.in_use,
            queue_bound = $event.queue_bound,
            queued = $event.queued,
            priority = $fields.priority,
            waited = $fields.waited,
            took = $fields.took,
            outcome = $fields.outcome,
            reason = $fields.reason,
            "{}",
            $kind
        )
    };
}

/// The fields that only some kinds of events have.
#[derive(Default)]
struct Fields {
    priority: Option<&'static str>,
    waited: Option<f64>,
    took: Option<f64>,
    outcome: Option<&'static str>,
    reason: Option<&'static str>,
}

impl Fields {
    fn new(kind: EventKind) -> Self {
        let mut fields = Self {
            priority: kind.priority().map(priority_word),
            ..Self::default()
        };
        match kind {
            EventKind::Dequeued { waited, .. } => fields.waited = Some(waited.as_secs_f64()),
            EventKind::Processed { took, outcome, .. } => {
                fields.took = Some(took.as_secs_f64());
                fields.outcome = Some(outcome.as_str());
            }
            EventKind::Rejected { reason, .. } => fields.reason = Some(reason.as_str()),
            _ => {}
        }
        fields
    }
}

impl Trace {
    /// Creates a forwarder of `events`, from a [subscription](plimsoll::Gate::subscribe), under the name `limiter`.
    ///
    /// Subscribe with a capacity for the events of one interval between two calls of [`forward`](Self::forward): events
    /// that do not fit are lost, and counted as missed.
    ///
    /// The name is the field `limiter` of every event, so it need not be the name of the limiter itself.
    #[must_use]
    pub fn new(events: Events, limiter: &str) -> Self {
        Self {
            events,
            limiter: limiter.into(),
            missed: 0,
        }
    }

    /// Forwards all events since the last call, and the number of missed events. Returns the number forwarded.
    ///
    /// Events that only repeat a number of the previous event, `in_use_changed` and `queued_changed`, are skipped. A
    /// call without new events only checks an empty buffer, so a short interval is cheap.
    pub fn forward(&mut self) -> usize {
        let forwarded = self
            .events
            .by_ref()
            .filter(|event| !is_count(event.kind))
            .map(|event| forward(&self.limiter, &event))
            .count();
        let missed = self.events.missed();
        let more = missed.saturating_sub(self.missed);
        if more > 0 {
            self.missed = missed;
            tracing::warn!(target: "plimsoll", limiter = &*self.limiter, missed = more, "missed");
        }
        forwarded
    }
}

/// Whether it only repeats a number of the previous event.
fn is_count(kind: EventKind) -> bool {
    matches!(kind, EventKind::InUseChanged | EventKind::QueuedChanged)
}

fn forward(limiter: &str, event: &Event) {
    let (kind, fields) = (event.kind.as_str(), Fields::new(event.kind));
    match event.kind {
        EventKind::LimitChanged | EventKind::QueueBoundChanged => {
            forward!(INFO, limiter, event, kind, fields);
        }
        EventKind::Rejected { .. } => forward!(WARN, limiter, event, kind, fields),
        _ => forward!(DEBUG, limiter, event, kind, fields),
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("limiter", &self.limiter)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}
