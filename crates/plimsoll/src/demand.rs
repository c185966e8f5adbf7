use std::time::Duration;

use crate::moment::Moment;

/// Who goes first when several wait.
///
/// Waiters of a higher class are served before all waiters of lower classes, and a full queue makes
/// room for them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Priority {
    /// Work that can be dropped first.
    NonCritical,
    /// Everything that says nothing else.
    #[default]
    Normal,
    /// Work that must go through if anything does.
    Critical,
}

impl Priority {
    /// How many classes there are.
    pub(crate) const CLASSES: usize = 3;

    /// All of them, the lowest first.
    pub const ALL: [Self; Self::CLASSES] = [Self::NonCritical, Self::Normal, Self::Critical];

    /// The word for it in files, headers and metrics.
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

/// What is asked of a limiter: a cost, and how it may be waited for.
///
/// A plain number is a demand of that cost:
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
/// # Ok::<(), plimsoll::Denied>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct Demand {
    pub(crate) cost: u32,
    pub(crate) priority: Priority,
    pub(crate) patience: Patience,
}

/// How long a demand may wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Patience {
    Unlimited,
    /// Not at all.
    AtOnce,
    Within(Duration),
    Until(Moment),
}

impl Patience {
    /// The last moment at which it still helps to be served.
    pub(crate) fn deadline(self, now: Moment) -> Moment {
        match self {
            Self::Unlimited => Moment::NEVER,
            Self::AtOnce => now,
            Self::Within(span) => now.plus(span),
            Self::Until(moment) => moment,
        }
    }
}

impl Demand {
    /// One permit.
    pub const ONE: Self = Self::of(1);

    /// A demand of `cost` permits, of normal priority, that waits as long as it takes.
    ///
    /// Cost 0 asks for the state: it is granted when anything is available and takes nothing.
    pub const fn of(cost: u32) -> Self {
        Self {
            cost,
            priority: Priority::Normal,
            patience: Patience::Unlimited,
        }
    }

    /// The same demand for another cost.
    pub const fn for_cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Puts the demand into another class.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Waits at most this long. A wait known to take longer is refused at once.
    ///
    /// Of a reservation it is the longest wait that is acceptable.
    pub const fn within(mut self, timeout: Duration) -> Self {
        self.patience = Patience::Within(timeout);
        self
    }

    /// Does not wait: [`acquire`](crate::Limiter::acquire) then answers as
    /// [`try_acquire`](crate::Limiter::try_acquire) does, for limiters that have to ask elsewhere.
    pub const fn at_once(mut self) -> Self {
        self.patience = Patience::AtOnce;
        self
    }

    /// Whether it does not wait.
    #[must_use]
    pub const fn is_at_once(self) -> bool {
        matches!(self.patience, Patience::AtOnce)
    }

    /// Waits until this moment of the limiter's clock at the latest.
    pub const fn until(mut self, deadline: Moment) -> Self {
        self.patience = Patience::Until(deadline);
        self
    }

    /// The last moment at which it still helps to be served, seen from `now`; `None` if it waits as long as it takes.
    /// For limiters outside this crate.
    #[must_use]
    pub fn deadline(self, now: Moment) -> Option<Moment> {
        let deadline = self.patience.deadline(now);
        deadline.is_known().then_some(deadline)
    }

    /// Of which class it is.
    #[must_use]
    pub const fn class(self) -> Priority {
        self.priority
    }

    /// How many permits are asked for.
    #[must_use]
    pub const fn cost(self) -> u32 {
        self.cost
    }

    /// What it counts against the bound of a queue: nobody waits for free.
    pub(crate) fn weight(self) -> u64 {
        u64::from(self.cost.max(1))
    }
}

impl From<u32> for Demand {
    fn from(cost: u32) -> Self {
        Self::of(cost)
    }
}
