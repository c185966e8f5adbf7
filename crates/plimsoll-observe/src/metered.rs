use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use plimsoll::{Acquire, Demand, Denied, Limiter};

use crate::asking::Asking;
use crate::metrics::Meter;
use crate::{MeteredPermit, Method};

/// A limiter that counts what is asked of it. A clone is the same limiter, and counts in the same place.
///
/// Made by [`Metrics::meter`](crate::Metrics::meter). It answers what the limiter answers; only what goes
/// through it is counted.
///
/// ```
/// # let mut registry = plimsoll_observe::prometheus_client::registry::Registry::default();
/// use std::sync::Arc;
/// use plimsoll::{Concurrency, Gate, Outcome};
/// use plimsoll_observe::{Method, Metrics};
///
/// let gate = Arc::new(Gate::new(Concurrency::new(10)));
/// let metered = Metrics::register(&mut registry).meter(gate).unwrap();
///
/// let permit = metered.try_acquire("GET", 1)?; // or `Method::Get`
/// permit.finish(Outcome::Success);
/// # Ok::<(), plimsoll::Denied>(())
/// ```
pub struct Metered<L: ?Sized> {
    limiter: Arc<L>,
    meter: Arc<Meter>,
}

impl<L: Limiter + ?Sized> Metered<L> {
    pub(crate) fn new(limiter: Arc<L>, meter: Arc<Meter>) -> Self {
        Self { limiter, meter }
    }

    /// The limiter itself. What is asked of it here is not counted.
    #[must_use]
    pub fn limiter(&self) -> &Arc<L> {
        &self.limiter
    }

    /// Takes now, or is refused. See [`Limiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// The refusal of the limiter, which is counted.
    pub fn try_acquire(
        &self,
        method: impl Into<Method>,
        demand: impl Into<Demand>,
    ) -> Result<MeteredPermit<'_>, Denied> {
        let mut asking = Asking::new(&self.meter, method.into(), demand.into());
        let answer = asking.inside(|demand| self.limiter.try_acquire(demand));
        asking.answered(answer)
    }

    /// Takes, waiting in the limiter's queue if it has one. See [`Limiter::acquire`].
    ///
    /// It counts as waiting when it really has to. Dropping the future leaves the queue, and is no refusal.
    pub fn acquire(
        &self,
        method: impl Into<Method>,
        demand: impl Into<Demand>,
    ) -> MeteredAcquire<'_> {
        let demand = demand.into();
        MeteredAcquire {
            asking: Asking::new(&self.meter, method.into(), demand),
            acquire: self.limiter.acquire(demand),
        }
    }
}

impl<L: ?Sized> Clone for Metered<L> {
    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            meter: Arc::clone(&self.meter),
        }
    }
}

impl<L: ?Sized> fmt::Debug for Metered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered")
            .field("name", &self.meter.name)
            .finish_non_exhaustive()
    }
}

/// Waits for a permit. See [`Metered::acquire`].
#[must_use = "futures do nothing unless they are polled"]
pub struct MeteredAcquire<'a> {
    /// Dropped first: nobody is counted as waiting who does not.
    asking: Asking<'a>,
    acquire: Acquire<'a>,
}

impl<'a> Future for MeteredAcquire<'a> {
    type Output = Result<MeteredPermit<'a>, Denied>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { asking, acquire } = self.get_mut();
        let answer = asking.inside(|_| Pin::new(acquire).poll(cx));
        if answer.is_pending() {
            asking.waits();
        }
        Poll::Ready(asking.answered(ready!(answer)))
    }
}

impl fmt::Debug for MeteredAcquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MeteredAcquire")
            .field(&self.acquire)
            .finish()
    }
}
