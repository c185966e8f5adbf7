//! Limiting a call: acquire, run, return the permit.

use std::future::Future;

use plimsoll::together::Permits;
use plimsoll::{Demand, Denied, Limiter, LimiterExt, Outcome};

use crate::basic::Basic;
use crate::demands::Demands;
use crate::provider::Provider;

/// `Ok` is a success. An error is ignored, because the caller may have caused it.
fn of_result<T, E>(result: &Result<T, E>) -> Outcome {
    if result.is_ok() {
        Outcome::Success
    } else {
        Outcome::Ignore
    }
}

/// The result of the call, or the refusal as an error of the same type.
fn flat<T, E: From<Denied>>(result: Result<Result<T, E>, Denied>) -> Result<T, E> {
    result.unwrap_or_else(|denied| Err(denied.into()))
}

/// Runs calls under the permit of a limiter of any kind.
///
/// ```
/// use plimsoll::{Concurrency, Denied, Gate, TokenBucket};
/// use plimsoll_kinds::{LimitCall, Rate, Resource};
///
/// let rate = Rate::from(Gate::new(TokenBucket::per_second(100)));
/// let slots = Resource::from(Gate::new(Concurrency::new(10)));
/// let answer = rate.limit_call(1, || slots.limit_call(1, || Ok::<_, Denied>(42)))?;
/// assert_eq!(answer, 42);
/// # Ok::<(), Denied>(())
/// ```
///
/// The permit is returned when the call returns, with the outcome: [`Ok`] is a success, an error is
/// [ignored](Outcome::Ignore). If the call panics or is cancelled, the permit is returned and the outcome is ignored.
///
/// If the limiter has a queue, the call waits in it. Inside an async runtime use
/// [`limit_call_async`](Self::limit_call_async); outside, [`Demand::within`] bounds the wait.
pub trait LimitCall: Limiter {
    /// Runs `call` under a permit. Blocks the thread while it waits for the permit.
    ///
    /// # Errors
    ///
    /// Returns the error of `call`, or the refusal.
    #[inline]
    fn limit_call<T, E: From<Denied>>(
        &self,
        demand: impl Into<Demand>,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        flat(self.limit_call_with(demand, of_result, call))
    }

    /// Runs `call` under a permit; `outcome` derives the outcome from its result.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    #[inline]
    fn limit_call_with<T>(
        &self,
        demand: impl Into<Demand>,
        outcome: impl FnOnce(&T) -> Outcome,
        call: impl FnOnce() -> T,
    ) -> Result<T, Denied> {
        let demand = demand.into();
        let permit = match self.attempt(demand) {
            Ok(permit) => permit,
            Err(_) => self.acquire_blocking(demand)?,
        };
        let result = call();
        permit.finish(outcome(&result));
        Ok(result)
    }

    /// Waits for a permit, then runs `call` under it.
    fn limit_call_async<T: Send, E: From<Denied> + Send>(
        &self,
        demand: impl Into<Demand> + Send,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> impl Future<Output = Result<T, E>> + Send {
        async move { flat(self.limit_call_async_with(demand, of_result, call).await) }
    }

    /// Waits for a permit, then runs `call` under it; `outcome` derives the outcome from its result.
    fn limit_call_async_with<T: Send>(
        &self,
        demand: impl Into<Demand> + Send,
        outcome: impl FnOnce(&T) -> Outcome + Send,
        call: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T, Denied>> + Send {
        async move {
            let demand = demand.into();
            let permit = match self.attempt(demand) {
                Ok(permit) => permit,
                Err(_) => self.acquire(demand).await?,
            };
            let result = call.await;
            permit.finish(outcome(&result));
            Ok(result)
        }
    }
}

impl<L: Limiter + ?Sized> LimitCall for L {}

impl Basic {
    /// Runs `call` unless the limiter is saturated.
    ///
    /// # Errors
    ///
    /// Returns the error of `call`, or the refusal.
    pub fn limit_call<T, E: From<Denied>>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_saturation()?;
        call()
    }
}

/// Calls under permits of several weights at once; see [`LimitCall`].
impl Provider {
    /// Runs `call` under permits for all weights. Blocks the thread while it waits for the permits.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate, Queue};
    /// use plimsoll_kinds::{Demands, Provider, Weight};
    /// use std::time::Duration;
    ///
    /// let gate = Gate::builder(Concurrency::new(10)).queue(Queue::lifo(100)).build();
    /// let provider = Provider::builder().limit(Weight::REQUEST_COUNT, gate).build()?;
    ///
    /// let costs = [(Weight::REQUEST_COUNT, 1)];
    /// let line = provider.limit_call(
    ///     Demands::of(&costs).within(Duration::from_millis(100)),
    ///     || Ok::<_, Box<dyn std::error::Error>>("done"),
    /// )?;
    /// # assert_eq!(line, "done");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `call`, or the refusal.
    #[inline]
    pub fn limit_call<'d, T, E: From<Denied>>(
        &self,
        demands: impl Into<Demands<'d>>,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        flat(self.limit_call_with(demands, of_result, call))
    }

    /// Runs `call` under permits for all weights; `outcome` derives the outcome from its result.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    #[inline]
    pub fn limit_call_with<'d, T>(
        &self,
        demands: impl Into<Demands<'d>>,
        outcome: impl FnOnce(&T) -> Outcome,
        call: impl FnOnce() -> T,
    ) -> Result<T, Denied> {
        let demands = demands.into();
        if let Some((limited, demand)) = self.only(&demands) {
            self.check_saturation()?;
            let called = limited.limiter.limit_call_with(demand, outcome, call);
            return called.map_err(|denied| limited.name_refusal(denied));
        }
        self.limit_several(&demands, outcome, call)
    }

    /// A function of its own, so that the common case stays small enough to be inlined.
    #[inline(never)]
    fn limit_several<T>(
        &self,
        demands: &Demands<'_>,
        outcome: impl FnOnce(&T) -> Outcome,
        call: impl FnOnce() -> T,
    ) -> Result<T, Denied> {
        // Filled in place, because moving it costs more than a decision.
        let mut permits = Permits::new();
        self.acquire_into(demands, &mut permits)?;
        let result = call();
        permits.finish_all(outcome(&result));
        Ok(result)
    }

    /// Waits for permits for all weights, then runs `call` under them.
    ///
    /// # Errors
    ///
    /// Returns the error of `call`, or the refusal.
    pub async fn limit_call_async<'d, T, E: From<Denied>>(
        &self,
        demands: impl Into<Demands<'d>>,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        flat(self.limit_call_async_with(demands, of_result, call).await)
    }

    /// Waits for permits for all weights, then runs `call` under them; `outcome` derives the outcome from its result.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub async fn limit_call_async_with<'d, T>(
        &self,
        demands: impl Into<Demands<'d>>,
        outcome: impl FnOnce(&T) -> Outcome,
        call: impl Future<Output = T>,
    ) -> Result<T, Denied> {
        let permits = self.acquire(demands).await?;
        let result = call.await;
        permits.finish(outcome(&result));
        Ok(result)
    }
}
