use std::time::Duration;

use crate::moment::Moment;

/// The class of a demand: which waiters are served first.
///
/// Waiters of a higher class are served before all waiters of lower classes. When the queue is full, a demand of a
/// higher class evicts waiters of lower classes. Among waiters of one class the order of the
/// [`Queue`](crate::Queue) decides.
///
/// ```
/// use plimsoll::Priority;
///
/// assert!(Priority::Critical > Priority::Normal);
/// assert_eq!(Priority::default(), Priority::Normal);
/// assert_eq!(Priority::NonCritical.as_str(), "non-critical");
/// ```
///
/// There are three classes, and no more will be added: a queue has one line of waiters for each. A `match` can therefore name them all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Priority {
    /// Work that can be refused first, such as prefetching.
    NonCritical,
    /// The class of a demand that does not set one.
    #[default]
    Normal,
    /// Work that is refused last.
    Critical,
}

impl Priority {
    /// The number of classes.
    pub(crate) const CLASSES: usize = 3;

    /// All classes, the lowest first.
    pub const ALL: [Self; Self::CLASSES] = [Self::NonCritical, Self::Normal, Self::Critical];

    /// Returns the name of the class in files, headers and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NonCritical => "non-critical",
            Self::Normal => "normal",
            Self::Critical => "critical",
        }
    }

    pub(crate) fn of_class(class: usize) -> Self {
        Self::ALL.get(class).copied().unwrap_or_default()
    }

    /// The class as an index, the lowest first.
    pub(crate) const fn class(self) -> usize {
        self as usize
    }
}

/// A request for permits: how many, in which class, and how long the caller will wait.
///
/// A plain number is a demand of that cost, of normal priority, without a time-out:
///
/// ```
/// use plimsoll::{Concurrency, Demand, Gate, Priority};
/// use std::time::Duration;
///
/// let gate = Gate::new(Concurrency::new(10));
/// let small = gate.try_acquire(1)?;
/// let large = gate.try_acquire(
///     Demand::of(5).priority(Priority::Critical).within(Duration::from_millis(50)),
/// )?;
/// assert_eq!(large.cost(), 5);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
///
/// # Reading and setting
///
/// [`cost`](Self#structfield.cost) and [`priority`](Self#structfield.priority) are fields; the methods of the same name
/// return the demand with another value:
///
/// ```
/// # use plimsoll::{Demand, Priority};
/// let demand = Demand::of(3).priority(Priority::NonCritical);
/// assert_eq!((demand.cost, demand.priority), (3, Priority::NonCritical));
/// assert_eq!(demand.cost(5).priority, Priority::NonCritical);
/// ```
///
/// # Time-outs
///
/// The demand carries the time-out, so no method that takes a demand has a variant with one. The last of these calls
/// counts:
///
/// | method | waits |
/// |---|---|
/// | none | without limit, or as the [time-out of the queue](crate::Queue::timeout) allows |
/// | [`within`](Self::within) | at most this long from the call |
/// | [`until`](Self::until) | until a moment of the limiter's clock |
/// | [`at_once`](Self::at_once) | not at all |
///
/// A demand is refused with [`Reason::TimedOut`](crate::Reason::TimedOut) when its time is over, and at once if the
/// limiter can compute that the wait would be longer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct Demand {
    /// The number of permits.
    pub cost: u64,
    /// The class of the demand.
    #[cfg_attr(feature = "serde", serde(default))]
    pub priority: Priority,
    #[cfg_attr(feature = "serde", serde(default, rename = "wait"))]
    pub(crate) patience: Patience,
}

/// How long a demand may wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub(crate) enum Patience {
    #[default]
    Unlimited,
    /// Not at all.
    AtOnce,
    Within(Duration),
    Until(Moment),
    /// [`Until`](Self::Until), of a demand that has waited for another limiter before: see [`Demand::kept_until`].
    /// Only a limiter of this process may ask so: from a file or a connection it is a demand with a deadline.
    #[cfg_attr(
        feature = "serde",
        serde(rename(serialize = "until"), skip_deserializing)
    )]
    Kept(Moment),
}

impl Patience {
    /// The last moment at which the demand may be served.
    pub(crate) fn deadline(self, now: Moment) -> Moment {
        match self {
            Self::Unlimited => Moment::NEVER,
            Self::AtOnce => now,
            Self::Within(span) => now.plus(span),
            Self::Until(moment) | Self::Kept(moment) => moment,
        }
    }
}

impl Demand {
    /// One permit.
    pub const ONE: Self = Self::of(1);

    /// Creates a demand of `cost` permits, of normal priority, without a time-out.
    ///
    /// A cost of 0 probes the limit: it is granted when anything is available, and takes nothing.
    pub const fn of(cost: u64) -> Self {
        Self {
            cost,
            priority: Priority::Normal,
            patience: Patience::Unlimited,
        }
    }

    /// Sets the [`cost`](Self#structfield.cost).
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the [`priority`](Self#structfield.priority).
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Waits at most this long, counted from the call. A demand that is known to wait longer is refused at once.
    ///
    /// For a [reservation](crate::Reservation) it is the longest wait that the caller accepts.
    ///
    /// ```
    /// use plimsoll::{Demand, Gate, ManualClock, Queue, Reason, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(10))
    ///     .queue(Queue::fifo(100))
    ///     .clock(ManualClock::new().clock())
    ///     .build();
    /// gate.try_acquire(10)?;
    ///
    /// // The next token comes after 100 ms: the queue does not accept a demand that waits for 50 ms.
    /// let denied = gate.acquire_blocking(Demand::ONE.within(Duration::from_millis(50))).unwrap_err();
    /// assert_eq!(denied.reason(), Reason::TimedOut);
    /// # Ok::<(), plimsoll::Denied>(())
    /// ```
    pub const fn within(mut self, timeout: Duration) -> Self {
        self.patience = Patience::Within(timeout);
        self
    }

    /// Does not wait: [`acquire`](crate::Limiter::acquire) then answers as [`try_acquire`](crate::Limiter::try_acquire)
    /// does. Use it for limiters that have to ask a store, which `try_acquire` cannot do.
    pub const fn at_once(mut self) -> Self {
        self.patience = Patience::AtOnce;
        self
    }

    /// Returns whether the demand does [not wait](Self::at_once).
    #[must_use]
    pub const fn is_at_once(self) -> bool {
        matches!(self.patience, Patience::AtOnce)
    }

    /// Waits until this moment of the limiter's clock at the latest.
    pub const fn until(mut self, deadline: Moment) -> Self {
        self.patience = Patience::Until(deadline);
        self
    }

    /// Like [`until`](Self::until), for a demand that already waits at a limiter that is being replaced: no queue
    /// refuses it because of its bound or its time-out, and it waits even where there is no queue.
    #[doc(hidden)]
    pub fn kept_until(mut self, deadline: Option<Moment>) -> Self {
        self.patience = Patience::Kept(deadline.unwrap_or(Moment::NEVER));
        self
    }

    /// Whether it has waited for another limiter before.
    pub(crate) const fn is_kept(self) -> bool {
        matches!(self.patience, Patience::Kept(_))
    }

    /// Returns the last moment at which the demand may be served if it is made at `now`; `None` without a time-out. For
    /// authors of limiters.
    #[must_use]
    pub fn deadline(self, now: Moment) -> Option<Moment> {
        let deadline = self.patience.deadline(now);
        deadline.is_known().then_some(deadline)
    }

    /// The weight of the demand against the bound of a queue: at least 1.
    pub(crate) fn weight(self) -> u64 {
        self.cost.max(1)
    }
}

impl From<u64> for Demand {
    fn from(cost: u64) -> Self {
        Self::of(cost)
    }
}
