use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use plimsoll::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, LimiterExt, Outcome, Permit, Reason,
    Reservation, Shareable, Snapshot, Source,
};

/// A check whether new work may start, based on memory, processor time or a switch of an operator.
///
/// Implemented for closures. [`Basic::new`] makes a limiter of it.
///
/// ```
/// use plimsoll::{Denied, Reason};
/// use plimsoll_kinds::{Basic, Saturation};
///
/// /// Saturated at a number of open files.
/// struct OpenFiles {
///     open: u64,
///     most: u64,
/// }
///
/// impl Saturation for OpenFiles {
///     fn check_saturation(&self) -> Result<(), Denied> {
///         if self.open < self.most { Ok(()) } else { Err(Denied::new(Reason::Saturated)) }
///     }
/// }
///
/// let files = Basic::new("files", OpenFiles { open: 1024, most: 1024 });
/// assert_eq!(files.check_saturation().unwrap_err().limiter(), Some("files"));
/// ```
pub trait Saturation: Send + Sync {
    /// Checks whether new work may start. Called for every request, so it should be cheap.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], usually with the reason [`Saturated`](Reason::Saturated), if it may not.
    fn check_saturation(&self) -> Result<(), Denied>;
}

impl<F: Fn() -> Result<(), Denied> + Send + Sync> Saturation for F {
    fn check_saturation(&self) -> Result<(), Denied> {
        self()
    }
}

/// A limiter that admits or refuses regardless of the cost. Clones share it.
///
/// ```
/// use plimsoll_kinds::Basic;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let draining = Arc::new(AtomicBool::new(false));
/// let switch = Arc::clone(&draining);
/// let basic = Basic::when("draining", move || switch.load(Ordering::Relaxed));
/// assert!(basic.check_saturation().is_ok());
///
/// draining.store(true, Ordering::Relaxed);
/// assert_eq!(basic.check_saturation().unwrap_err().to_string(), "draining: saturated");
/// ```
#[derive(Clone)]
pub struct Basic {
    pub(crate) limiter: Arc<dyn Limiter>,
}

impl Basic {
    /// Creates a limiter that asks `saturation`. Refusals without a name get `name`.
    pub fn new(name: &str, saturation: impl Saturation + 'static) -> Self {
        Self::with(Some(name.into()), saturation)
    }

    /// Creates a limiter that is saturated while `saturated` returns true.
    pub fn when(name: &str, saturated: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let refusal = Denied::new(Reason::Saturated).with_limiter(name);
        Self::new(name, move || {
            if saturated() {
                Err(refusal.clone())
            } else {
                Ok(())
            }
        })
    }

    /// Wraps a limiter that decides regardless of the cost, such as a memory limit. Its name, its queue and
    /// [`close`](Self::close) are those of the limiter.
    ///
    /// ```
    /// use plimsoll::{Gate, Limiter, Queue, TokenBucket};
    /// use plimsoll_kinds::Basic;
    ///
    /// let gate = Gate::builder(TokenBucket::per_second(1)).name("door").queue(Queue::fifo(9)).build();
    /// let basic = Basic::of(gate.clone());
    /// assert!(basic.check_saturation().is_ok());
    /// basic.close();
    /// assert!(gate.try_acquire(1).is_err());
    /// ```
    pub fn of(limiter: impl Limiter + 'static) -> Self {
        Self {
            limiter: Arc::new(limiter),
        }
    }

    fn with(name: Option<Box<str>>, saturation: impl Saturation + 'static) -> Self {
        let limiter = Arc::new_cyclic(|me| SaturationLimiter {
            me: Weak::clone(me),
            name,
            clock: Clock::system(),
            closed: AtomicBool::new(false),
            saturation,
        });
        Self { limiter }
    }

    /// Checks whether new work may start. It takes nothing.
    ///
    /// # Errors
    ///
    /// Returns the refusal if it may not.
    pub fn check_saturation(&self) -> Result<(), Denied> {
        self.limiter.check_saturation()
    }

    /// Returns the name of the limiter.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.limiter.name()
    }

    /// Closes the limiter, which refuses every demand from now on.
    pub fn close(&self) {
        self.limiter.close();
    }
}

impl<S: Saturation + 'static> From<S> for Basic {
    fn from(saturation: S) -> Self {
        Self::with(None, saturation)
    }
}

impl fmt::Debug for Basic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Basic").field(&self.name()).finish()
    }
}

/// A limiter by saturation: every cost is granted, or none is.
struct SaturationLimiter<S> {
    me: Weak<Self>,
    name: Option<Box<str>>,
    clock: Clock,
    closed: AtomicBool,
    saturation: S,
}

impl<S: Saturation> SaturationLimiter<S> {
    fn permit(&self, demand: Demand) -> Permit<'_>
    where
        S: 'static,
    {
        let grant = Grant::of(demand).taken(self.clock.now());
        Permit::new(self, grant, false)
    }

    fn name_refusal(&self, denied: Denied) -> Denied {
        match &self.name {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name),
            _ => denied,
        }
    }
}

impl<S: Saturation + 'static> Source for SaturationLimiter<S> {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}
}

impl<S: Saturation + 'static> Shareable for SaturationLimiter<S> {
    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

impl<S: Saturation + 'static> Limiter for SaturationLimiter<S> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.check_saturation().map(|()| self.permit(demand))
    }

    /// Answers at once, because it has no queue.
    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::ready(self.try_acquire(demand))
    }

    fn reserve(&self, demand: Demand) -> Result<Reservation<'_>, Denied> {
        let permit = self.try_acquire(demand)?;
        let now = permit.granted_at();
        let permit = std::future::ready(Ok(permit));
        Ok(Reservation::from_future(now, Some(now), permit))
    }

    fn estimate(&self, _demand: Demand) -> Result<(), Denied> {
        self.check_saturation()
    }

    /// Everything is available, or nothing is.
    fn snapshot(&self) -> Snapshot {
        let limit = u64::MAX;
        let available = if self.check_saturation().is_ok() {
            limit
        } else {
            0
        };
        Snapshot::of(limit, available)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn internals(&self) -> Option<&dyn plimsoll::Internals> {
        Some(self)
    }
}

impl<S: Saturation + 'static> plimsoll::Internals for SaturationLimiter<S> {
    fn source(&self) -> Option<&dyn Shareable> {
        Some(self)
    }

    fn check_saturation(&self) -> Result<(), Denied> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(self.name_refusal(Denied::new(Reason::Closed)));
        }
        self.saturation
            .check_saturation()
            .map_err(|denied| self.name_refusal(denied))
    }
}
