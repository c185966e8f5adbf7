use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use plimsoll::{Acquire, Demand, Denied, Limiter};

use crate::meter::Meter;
use crate::request::PendingRequest;
use crate::{MeteredPermit, Method};

/// A limiter with counted requests. [`Metrics::meter`](crate::Metrics::meter) returns one.
///
/// It gives the same answers as the limiter. Requests made to the limiter directly are not counted. Clones share the
/// limiter and the counts.
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

    /// Returns the limiter itself. Requests made to it are not counted.
    #[must_use]
    pub fn limiter(&self) -> &Arc<L> {
        &self.limiter
    }

    /// Acquires a permit now. It never waits. See [`Limiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// Returns the refusal of the limiter, which is counted.
    pub fn try_acquire(
        &self,
        method: impl Into<Method>,
        demand: impl Into<Demand>,
    ) -> Result<MeteredPermit<'_>, Denied> {
        let mut request = PendingRequest::new(&self.meter, method.into(), demand.into());
        let answer = request.inside(|demand| self.limiter.try_acquire(demand));
        request.answered(answer)
    }

    /// Acquires a permit, and waits in the queue of the limiter if it has one. See [`Limiter::acquire`].
    ///
    /// The request counts as waiting only if it has to wait. Dropping the future leaves the queue and does not count as a
    /// refusal.
    pub fn acquire(
        &self,
        method: impl Into<Method>,
        demand: impl Into<Demand>,
    ) -> MeteredAcquire<'_> {
        let demand = demand.into();
        MeteredAcquire {
            request: PendingRequest::new(&self.meter, method.into(), demand),
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

/// The future of [`Metered::acquire`].
///
/// It yields a [`MeteredPermit`], or the refusal, which is counted. Dropping it before that leaves the queue.
#[must_use = "futures do nothing unless they are polled"]
pub struct MeteredAcquire<'a> {
    /// Dropped first, so that the request never counts as waiting without being in the queue.
    request: PendingRequest<'a>,
    acquire: Acquire<'a>,
}

impl<'a> Future for MeteredAcquire<'a> {
    type Output = Result<MeteredPermit<'a>, Denied>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { request, acquire } = self.get_mut();
        let answer = request.inside(|_| Pin::new(acquire).poll(cx));
        if answer.is_pending() {
            request.waits();
        }
        Poll::Ready(request.answered(ready!(answer)))
    }
}

impl fmt::Debug for MeteredAcquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MeteredAcquire")
            .field(&self.acquire)
            .finish()
    }
}
