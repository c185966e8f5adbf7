//! Limits a consumer: a stage of a pipeline that takes batches.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::Denied;

use crate::demands::Demands;
use crate::provider::Provider;
use crate::weight::Weight;

/// A consumer of batches behind the limiters of a [`Provider`]. [`Provider::limited`] makes one.
///
/// A batch is consumed in three steps. It is refused if any limiter of the provider is saturated. Then its weights are
/// measured and acquired, all or none, in [their order](Weight#the-order), waiting in the queues of limiters that have
/// one. Then the consumer runs, and permits are returned when it is done.
///
/// Clones share the limiters.
#[derive(Clone)]
#[must_use = "a consumer does nothing until it is given something"]
pub struct LimitedConsumer<M, C> {
    provider: Provider,
    /// The weights that are limited. Others are not measured.
    weights: Arc<[Weight]>,
    within: Option<Duration>,
    measure: M,
    consumer: C,
}

impl Provider {
    /// Limits `consume` by these limiters. `measure` returns the cost of a batch for each of `weights` that is limited
    /// here.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Denied, Gate, TokenBucket};
    /// use plimsoll_kinds::{Provider, Weight};
    ///
    /// let provider = Provider::builder()
    ///     .limit(Weight::REQUEST_ITEMS, Gate::new(TokenBucket::per_second(100)))
    ///     .limit(Weight::MEMORY_SIZE, Gate::new(Concurrency::new(64 * 1024)))
    ///     .build()?;
    ///
    /// // Requests and bytes on the network are counted by the middleware before it.
    /// let lines = provider.limited(
    ///     &Weight::NOT_MIDDLEWARE,
    ///     |batch: &Vec<String>, weight| match weight {
    ///         Weight::REQUEST_ITEMS => batch.len() as u64,
    ///         _ => batch.iter().map(|line| line.len() as u64).sum(),
    ///     },
    ///     |batch| Ok::<_, Denied>(batch.len()),
    /// );
    /// assert_eq!(lines.consume(vec!["one".to_owned(), "two".to_owned()])?, 2);
    /// let denied = lines.consume(vec![String::new(); 99]).unwrap_err();
    /// assert_eq!(denied.limiter(), Some("request_items"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limited<B, T, M, C>(
        &self,
        weights: &[Weight],
        measure: M,
        consumer: C,
    ) -> LimitedConsumer<M, C>
    where
        M: Fn(&B, Weight) -> u64,
        C: Fn(B) -> T,
    {
        let limited = self.weights().filter(|weight| weights.contains(weight));
        LimitedConsumer {
            weights: limited.collect(),
            provider: self.clone(),
            within: None,
            measure,
            consumer,
        }
    }
}

impl<M, C> LimitedConsumer<M, C> {
    /// Sets the longest wait for the permits of a batch. Default: only the time-outs of queues bound the wait.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.within = Some(timeout);
        self
    }

    /// Checks saturation before a batch is fetched or decoded.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the first limiter that is saturated.
    pub fn check_saturation(&self) -> Result<(), Denied> {
        self.provider.check_saturation()
    }

    /// The costs of a batch.
    fn costs<B>(&self, batch: &B) -> Vec<(Weight, u64)>
    where
        M: Fn(&B, Weight) -> u64,
    {
        let weights = self.weights.iter();
        weights
            .map(|weight| (*weight, (self.measure)(batch, *weight)))
            .collect()
    }

    fn demands<'d>(&self, costs: &'d [(Weight, u64)]) -> Demands<'d> {
        match self.within {
            Some(timeout) => Demands::of(costs).within(timeout),
            None => Demands::of(costs),
        }
    }

    /// Consumes a batch under its permits. Blocks the thread while it waits for the permits.
    ///
    /// # Errors
    ///
    /// Returns the error of the consumer, or the refusal.
    pub fn consume<B, T, E>(&self, batch: B) -> Result<T, E>
    where
        M: Fn(&B, Weight) -> u64,
        C: Fn(B) -> Result<T, E>,
        E: From<Denied>,
    {
        // Before anything is measured.
        self.check_saturation()?;
        let costs = self.costs(&batch);
        self.provider
            .limit_call(self.demands(&costs), || (self.consumer)(batch))
    }

    /// Like [`consume`](Self::consume), for a batch that has to be decoded. If a limiter is saturated, nothing is
    /// decoded.
    ///
    /// ```
    /// # use plimsoll::{Denied, Reason};
    /// # use plimsoll_kinds::{Basic, Provider, Weight};
    /// let full = Basic::new("memory", || Err(Denied::new(Reason::Saturated)));
    /// let provider = Provider::builder().basic(full).build()?;
    /// let count = |batch: Vec<u8>| Ok::<_, Denied>(batch.len());
    /// let consumer = provider.limited(&Weight::NOT_MIDDLEWARE, |_: &Vec<u8>, _| 1, count);
    /// let answer = consumer.receive("raw", |_| unreachable!("nothing is decoded"));
    /// assert!(answer.is_err());
    /// # Ok::<(), plimsoll::InvalidLimit>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `decode` or of the consumer, or the refusal.
    pub fn receive<R, B, T, E>(
        &self,
        raw: R,
        decode: impl FnOnce(R) -> Result<B, E>,
    ) -> Result<T, E>
    where
        M: Fn(&B, Weight) -> u64,
        C: Fn(B) -> Result<T, E>,
        E: From<Denied>,
    {
        self.check_saturation()?;
        self.consume(decode(raw)?)
    }

    /// Like [`consume`](Self::consume), for a consumer that returns a future. The wait blocks no thread.
    ///
    /// # Errors
    ///
    /// Returns the error of the consumer, or the refusal.
    pub async fn consume_async<B, T, E, F>(&self, batch: B) -> Result<T, E>
    where
        M: Fn(&B, Weight) -> u64,
        C: Fn(B) -> F,
        F: Future<Output = Result<T, E>>,
        E: From<Denied>,
    {
        self.check_saturation()?;
        let costs = self.costs(&batch);
        let call = async { (self.consumer)(batch).await };
        self.provider
            .limit_call_async(self.demands(&costs), call)
            .await
    }

    /// Like [`receive`](Self::receive), for a consumer that returns a future.
    ///
    /// # Errors
    ///
    /// Returns the error of `decode` or of the consumer, or the refusal.
    pub async fn receive_async<R, B, T, E, F>(
        &self,
        raw: R,
        decode: impl FnOnce(R) -> Result<B, E>,
    ) -> Result<T, E>
    where
        M: Fn(&B, Weight) -> u64,
        C: Fn(B) -> F,
        F: Future<Output = Result<T, E>>,
        E: From<Denied>,
    {
        self.check_saturation()?;
        self.consume_async(decode(raw)?).await
    }
}

impl<M, C> std::fmt::Debug for LimitedConsumer<M, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimitedConsumer")
            .field("provider", &self.provider)
            .field("weights", &self.weights)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}
