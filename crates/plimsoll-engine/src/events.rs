//! Events of decisions and of reloads, and their subscribers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Clock, Events, Listeners, Moment, Reason};
use plimsoll_config::Changes;

use crate::top::{bounded, mask};

/// A decision, or a reload of the file. [`Limits::subscribe`](crate::Limits::subscribe) returns a stream of them.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits: { mail: { rate: 1/h, burst: 1 } }")?;
/// let mut events = limits.subscribe(100);
/// let _ = limits.try_decide(&[Ask::new("mail").cost(2)]);
/// let event = events.next().unwrap();
/// assert_eq!((event.kind.as_str(), event.asked()[0].cost), ("refused", 2));
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitsEvent {
    /// The decision, or the reload.
    pub kind: LimitsEventKind,
    /// The moment of the event, on the clock of the limits.
    pub at: Moment,
}

/// The kind of an event, with its data. Clones share the data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitsEventKind {
    /// A decision was admitted.
    #[non_exhaustive]
    Admitted {
        /// The asks, in the order of the decision.
        asked: Arc<[AskEvent]>,
    },
    /// A decision was refused.
    #[non_exhaustive]
    Refused {
        /// The name of the binding limit. `None` if an ask named a limit that the file does not have.
        limit: Option<Arc<str>>,
        /// The reason of the binding limit.
        reason: Reason,
        /// The time after which the decision would be admitted, if no other demand came. `None` if it is not known.
        retry_after: Option<Duration>,
        /// The asks, in the order of the decision. If a key was missing or a limit unknown, only the asks before that one.
        asked: Arc<[AskEvent]>,
    },
    /// The configuration was replaced.
    #[non_exhaustive]
    Changed {
        /// The changes of each limit.
        changes: Arc<Changes>,
    },
}

/// One ask of a decision, in an event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AskEvent {
    /// The name of the limit, as in the file.
    pub limit: Arc<str>,
    /// The key. `None` if the ask has none.
    pub key: Option<EventKey>,
    /// The cost that was asked for.
    pub cost: u64,
    /// Whether the limit is in shadow mode: it counts, and refuses nothing.
    pub shadow: bool,
    /// The reason of its refusal, or in shadow mode of the refusal that it would have been.
    pub denied: Option<Reason>,
}

/// A key in an event. `Display` and `Debug` print it [masked](mask), because it may be a secret.
///
/// ```
/// use plimsoll_engine::{Ask, Limits};
///
/// let limits = Limits::from_yaml("limits: { user: { rate: 1/s, key: header:x-user } }")?;
/// let mut events = limits.subscribe(100);
/// let _hold = limits.try_decide(&[Ask::new("user").key("anna@example.com")]);
/// let event = events.next().unwrap();
/// let key = event.asked()[0].key.as_ref().unwrap();
/// assert_eq!(key.to_string(), "anna… (16)");
/// assert_eq!(key.reveal(), "anna@example.com");
/// # Ok::<(), plimsoll_engine::ConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EventKey(Box<str>);

impl EventKey {
    /// Returns the key without the mask. Only its first 256 bytes are stored, so that queued events are bounded.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The key of an event, if there is one.
    pub(crate) fn of(key: &str) -> Option<Self> {
        (!key.is_empty()).then(|| Self(bounded(key).into()))
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(&self.0))
    }
}

impl fmt::Debug for EventKey {
    /// Masked: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LimitsEvent {
    /// Returns the asks of a decision, in its order. Empty for a reload.
    #[must_use]
    pub fn asked(&self) -> &[AskEvent] {
        match &self.kind {
            LimitsEventKind::Admitted { asked } | LimitsEventKind::Refused { asked, .. } => asked,
            LimitsEventKind::Changed { .. } => &[],
        }
    }

    /// Returns the asks that a limit in shadow mode would have refused, if it were enforced.
    pub fn would_refuse(&self) -> impl Iterator<Item = &AskEvent> {
        let asked = self.asked().iter();
        asked.filter(|asked| asked.shadow && asked.denied.is_some())
    }
}

impl LimitsEventKind {
    /// Returns the kind in one word, for logs and labels: `admitted`, `refused` or `changed`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Admitted { .. } => "admitted",
            Self::Refused { .. } => "refused",
            Self::Changed { .. } => "changed",
        }
    }
}

/// The subscribers to events. A reload of the file keeps them.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    listeners: Listeners<LimitsEvent>,
    clock: Clock,
}

impl Subscribers {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            listeners: Listeners::new(),
            clock: clock.clone(),
        }
    }

    /// Whether there are subscribers. A load of one flag.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.listeners.has_subscribers()
    }

    pub(crate) fn subscribe(&self, capacity: usize) -> Events<LimitsEvent> {
        self.listeners.subscribe(capacity)
    }

    /// Sends an event to all subscribers. The caller must hold no lock: it wakes tasks.
    #[cold]
    pub(crate) fn emit(&self, kind: LimitsEventKind) {
        let at = self.clock.now();
        self.listeners.emit(LimitsEvent { kind, at });
    }
}
