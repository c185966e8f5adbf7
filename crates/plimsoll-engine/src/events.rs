//! The events of the limits of a file.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Clock, Events, Listeners, Moment, Reason};
use plimsoll_config::Changes;

use crate::top::{bounded, mask};

/// A decision, or a change of the file. [`Limits::subscribe`](crate::Limits::subscribe) tells of them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitsEvent {
    /// What happened.
    pub kind: LimitsEventKind,
    /// When it happened, on the clock of the limits.
    pub at: Moment,
}

/// What happened to the limits of a file. A clone shares what it lists.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitsEventKind {
    /// A decision was admitted.
    #[non_exhaustive]
    Admitted {
        /// What was asked, in the order of the decision.
        asked: Arc<[AskEvent]>,
    },
    /// A decision was refused.
    #[non_exhaustive]
    Refused {
        /// The binding limit. `None` if the file has no limit of the name that was asked for.
        limit: Option<Arc<str>>,
        /// Why it refused.
        reason: Reason,
        /// How long to wait before the decision would be admitted, if no other demand came. `None` if that is not known.
        retry_after: Option<Duration>,
        /// What was asked, in the order of the decision. Where a key is missing or a limit is not there, nothing more was
        /// looked at: only what stands before it.
        asked: Arc<[AskEvent]>,
    },
    /// Another configuration was put in place.
    #[non_exhaustive]
    Changed {
        /// What changed, limit by limit.
        changes: Arc<Changes>,
    },
}

/// What was asked of one limit in a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AskEvent {
    /// The name of the limit, as in the file.
    pub limit: Arc<str>,
    /// The key. `None` if it has none.
    pub key: Option<EventKey>,
    /// What was asked of it.
    pub cost: u64,
    /// Whether the limit only counts, and refuses nothing.
    pub shadow: bool,
    /// Why it refuses, or would refuse if it were enforced.
    pub denied: Option<Reason>,
}

/// A key in an event. It is printed [masked](mask).
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
    /// The key as it is, which may be a secret: its first 256 bytes, so that what waits for a subscriber is bounded.
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
    /// What was asked in a decision, in its order. Nothing for a change.
    #[must_use]
    pub fn asked(&self) -> &[AskEvent] {
        match &self.kind {
            LimitsEventKind::Admitted { asked } | LimitsEventKind::Refused { asked, .. } => asked,
            LimitsEventKind::Changed { .. } => &[],
        }
    }

    /// The limits in shadow mode that would have refused the decision if they were enforced.
    pub fn would_refuse(&self) -> impl Iterator<Item = &AskEvent> {
        let asked = self.asked().iter();
        asked.filter(|asked| asked.shadow && asked.denied.is_some())
    }
}

impl LimitsEventKind {
    /// The kind in one word, for logs and labels: `admitted`, `refused` or `changed`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Admitted { .. } => "admitted",
            Self::Refused { .. } => "refused",
            Self::Changed { .. } => "changed",
        }
    }
}

/// The subscribers of the limits of a file. They stay when it changes.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    listeners: Listeners<LimitsEvent>,
    clock: Clock,
}

impl Audience {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            listeners: Listeners::new(),
            clock: clock.clone(),
        }
    }

    /// Whether there is anybody. A load of one flag.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.listeners.are_there()
    }

    pub(crate) fn subscribe(&self, capacity: usize) -> Events<LimitsEvent> {
        self.listeners.subscribe(capacity)
    }

    /// Tells everybody, with no lock held: whoever waits for it is woken.
    #[cold]
    pub(crate) fn tell(&self, kind: LimitsEventKind) {
        let at = self.clock.now();
        self.listeners.emit(LimitsEvent { kind, at });
    }
}
