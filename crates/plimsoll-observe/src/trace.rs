use std::fmt;

use plimsoll::{Event, EventKind, Events};

use crate::cells::priority_word;
use crate::span::outcome_word;

/// Tells `tracing` what a limiter tells its subscribers.
///
/// Every event has the target `plimsoll`, the word for what happened as its message, and these fields: `limiter`;
/// `at`, when it happened, in nanoseconds on the clock of the limiter; `limit`, `in_use`, `queue_bound` and
/// `queued`, as they were right after it; and where they mean something `priority`, `waited` and `took` in
/// seconds, `outcome` and `reason`.
///
/// | level | what |
/// |---|---|
/// | debug | `enqueued`, `dequeued`, `processing`, `processed` |
/// | info | `limit_changed`, `queue_bound_changed` |
/// | warn | `rejected`; `missed`, with the number of events that were lost because nobody looked in time |
///
/// Nothing is told until somebody calls [`tell`](Self::tell); do so as often as you like to read:
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_observe::Trace;
///
/// let gate = Gate::builder(Concurrency::new(1)).name("api").build();
/// let mut trace = Trace::new(gate.subscribe(10_000), "api");
/// // In a task of its own: `loop { trace.tell(); interval.tick().await; }`
/// assert_eq!(trace.tell(), 1); // `limit_changed`, which every newcomer is told
/// drop(gate.try_acquire(1));
/// assert_eq!(trace.tell(), 2); // `processing`, `processed`
/// ```
///
/// A limiter with a subscriber decides behind its lock. Where that costs too much, use the spans of
/// [`Metered`](crate::Metered) instead, or subscribe for as long as you look for something.
pub struct Trace {
    events: Events,
    limiter: Box<str>,
    /// How many of those that were missed have been told.
    missed: u64,
}

/// One event at one level: the level of a place in the program is fixed.
macro_rules! tell {
    ($level:ident, $limiter:expr, $event:expr, $word:expr, $told:expr) => {
        tracing::event!(
            target: "plimsoll",
            tracing::Level::$level,
            limiter = $limiter,
            at = $event.at.as_nanos(),
            limit = $event.limit,
            in_use = $event.in_use,
            queue_bound = $event.queue_bound,
            queued = $event.queued,
            priority = $told.priority,
            waited = $told.waited,
            took = $told.took,
            outcome = $told.outcome,
            reason = $told.reason,
            "{}",
            $word
        )
    };
}

/// The fields that only some kinds of events have.
#[derive(Default)]
struct Told {
    priority: Option<&'static str>,
    waited: Option<f64>,
    took: Option<f64>,
    outcome: Option<&'static str>,
    reason: Option<&'static str>,
}

impl Told {
    fn new(kind: EventKind) -> Self {
        let mut told = Self {
            priority: kind.priority().map(priority_word),
            ..Self::default()
        };
        match kind {
            EventKind::Dequeued { waited, .. } => told.waited = Some(waited.as_secs_f64()),
            EventKind::Processed { took, outcome, .. } => {
                told.took = Some(took.as_secs_f64());
                told.outcome = Some(outcome_word(outcome));
            }
            EventKind::Rejected { reason, .. } => told.reason = Some(reason.as_str()),
            _ => {}
        }
        told
    }
}

impl Trace {
    /// Tells what is read from `events` under the name of the limiter.
    #[must_use]
    pub fn new(events: Events, limiter: &str) -> Self {
        Self {
            events,
            limiter: limiter.into(),
            missed: 0,
        }
    }

    /// Tells everything that has happened since the last time, and how much of it was missed. Says how many
    /// events it told, without those missed.
    pub fn tell(&mut self) -> usize {
        let told = self
            .events
            .by_ref()
            .map(|event| tell(&self.limiter, &event))
            .count();
        let missed = self.events.missed();
        let more = missed.saturating_sub(self.missed);
        if more > 0 {
            self.missed = missed;
            tracing::warn!(target: "plimsoll", limiter = &*self.limiter, missed = more, "missed");
        }
        told
    }
}

fn tell(limiter: &str, event: &Event) {
    let (word, told) = (event.kind.as_str(), Told::new(event.kind));
    match event.kind {
        EventKind::LimitChanged | EventKind::QueueBoundChanged => {
            tell!(INFO, limiter, event, word, told);
        }
        EventKind::Rejected { .. } => tell!(WARN, limiter, event, word, told),
        _ => tell!(DEBUG, limiter, event, word, told),
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
