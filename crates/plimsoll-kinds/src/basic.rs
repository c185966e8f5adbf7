use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::name::Name;
use crate::{
    Acquire, Clock, Demand, Denied, Grant, Limiter, Outcome, Permit, Reason, Reservation, Snapshot,
    Source,
};

/// Says whether anything new may be started at all: because of memory, of a processor, of a switch somebody has turned.
///
/// Any function that answers so is one.
pub trait Saturation: Send + Sync {
    /// Whether anything new may be started. Called for every request, so it should only look.
    ///
    /// # Errors
    ///
    /// [`Denied`], as a rule with the reason [`Saturated`](Reason::Saturated), if not.
    fn check_saturation(&self) -> Result<(), Denied>;
}

impl<F: Fn() -> Result<(), Denied> + Send + Sync> Saturation for F {
    fn check_saturation(&self) -> Result<(), Denied> {
        self()
    }
}

/// A limiter that says yes or no, without a weight.
///
/// ```
/// use plimsoll::kinds::Basic;
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
    pub(super) limiter: Arc<dyn Limiter>,
}

impl Basic {
    /// A limiter that asks `saturation`. Its refusals have this name unless they have one already.
    pub fn new(name: &str, saturation: impl Saturation + 'static) -> Self {
        Self::with(Some(Name::new(name)), saturation)
    }

    /// A limiter that is saturated while `saturated` says so.
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

    fn with(name: Option<Name>, saturation: impl Saturation + 'static) -> Self {
        let limiter = Arc::new_cyclic(|me| Weightless {
            me: Weak::clone(me),
            name,
            clock: Clock::system(),
            closed: AtomicBool::new(false),
            saturation,
        });
        Self { limiter }
    }

    /// Whether anything new may be started.
    ///
    /// # Errors
    ///
    /// [`Denied`] says why not.
    pub fn check_saturation(&self) -> Result<(), Denied> {
        self.limiter.check_saturation()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.limiter.name()
    }

    /// Refuses everybody from now on.
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

/// A limiter of which only the saturation is known: whatever the cost, it is granted or not.
struct Weightless<S> {
    me: Weak<Self>,
    name: Option<Name>,
    clock: Clock,
    closed: AtomicBool,
    saturation: S,
}

impl<S: Saturation> Weightless<S> {
    fn permit(&self, demand: Demand) -> Permit<'_>
    where
        S: 'static,
    {
        Permit::new(self, demand.granted(self.clock.now()), false)
    }

    fn name_refusal(&self, denied: Denied) -> Denied {
        match self.name {
            Some(name) if denied.limiter().is_none() => denied.with_limiter(name.as_str()),
            _ => denied,
        }
    }
}

impl<S: Saturation + 'static> Source for Weightless<S> {
    fn give_back(&self, _grant: Grant, _outcome: Outcome) {}

    fn undo(&self, _grant: Grant, _whole: bool) {}

    fn to_shared(&self) -> Arc<dyn Source> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("it lives in an Arc"),
        }
    }
}

impl<S: Saturation + 'static> Limiter for Weightless<S> {
    fn try_acquire(&self, demand: Demand) -> Result<Permit<'_>, Denied> {
        self.check_saturation().map(|()| self.permit(demand))
    }

    /// There is nothing to wait for.
    fn acquire(&self, demand: Demand) -> Acquire<'_> {
        Acquire::from_future(async move { self.try_acquire(demand) })
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

    /// It knows of no limit: everything is available, or nothing.
    fn snapshot(&self) -> Snapshot {
        let (limit, in_use) = (u64::from(u32::MAX), 0);
        if self.check_saturation().is_ok() {
            Snapshot {
                limit,
                available: limit,
                in_use,
                ..Snapshot::default()
            }
        } else {
            Snapshot {
                limit,
                in_use: limit,
                ..Snapshot::default()
            }
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn name(&self) -> Option<&str> {
        self.name.map(Name::as_str)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn source(&self) -> &dyn Source {
        self
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
