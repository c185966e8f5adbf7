use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Keyed;
use super::key_gate::Lease;
use super::shared::{Shared, is_timeless};
use super::short::Asked;
use super::step::{Decided, Done, How, Step};
use crate::{Acquire, Demand, Denied, Moment, Permit, Reason, Rule};

/// A future that yields a permit of one key. See [`Keyed::acquire`].
///
/// Nothing happens before the first poll, which asks the limit of the key and joins its queue if there is one. Dropping
/// the future leaves that queue at once and loses no permit. A key is not evicted while demands wait for it.
///
/// ```
/// use plimsoll::{Concurrency, Demand, Keyed, Queue, Reason};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let per_host: Keyed<String, _> =
///     Keyed::builder(Concurrency::new(1)).queue(Queue::fifo(10)).build();
/// let first = per_host.acquire("db1", 1).await?;
/// let patience = Demand::ONE.within(Duration::from_millis(5));
/// let denied = per_host.acquire("db1", patience).await.unwrap_err();
/// assert_eq!(denied.reason(), Reason::TimedOut);
/// # drop(first);
/// # Ok::<(), plimsoll::Denied>(())
/// # }).unwrap();
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct AcquireKey<'a, K, Q: ?Sized, R: Rule, S> {
    stage: Stage<'a, K, Q, R, S>,
}

enum Stage<'a, K, Q: ?Sized, R: Rule, S> {
    Asking(&'a Keyed<K, R, S>, &'a Q, Demand),
    /// In the queue of the gate, which is kept while demands wait in it.
    Waiting(Acquire<'static>, Lease<R>),
    Done,
}

impl<'a, K, Q: ?Sized, R: Rule, S> AcquireKey<'a, K, Q, R, S> {
    pub(super) fn new(keyed: &'a Keyed<K, R, S>, key: &'a Q, demand: Demand) -> Self {
        Self {
            stage: Stage::Asking(keyed, key, demand),
        }
    }
}

impl<K, Q, R, S> Future for AcquireKey<'_, K, Q, R, S>
where
    K: Hash + Eq + Borrow<Q> + From<Q::Owned>,
    Q: Hash + Eq + ToOwned + ?Sized,
    R: Rule + Clone,
    S: BuildHasher,
{
    type Output = Result<Permit<'static>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stage = &mut self.stage;
        if let Stage::Asking(keyed, key, demand) = *stage {
            match keyed.ask(key, demand) {
                Ok(Ok(permit)) => {
                    *stage = Stage::Done;
                    return Poll::Ready(Ok(permit));
                }
                Ok(Err(lease)) => *stage = Stage::Waiting(lease.acquire_owned(demand), lease),
                Err(denied) => {
                    *stage = Stage::Done;
                    return Poll::Ready(Err(denied));
                }
            }
        }
        let answer = match stage {
            Stage::Waiting(waiting, _) => match Pin::new(waiting).poll(cx) {
                Poll::Ready(answer) => answer,
                Poll::Pending => return Poll::Pending,
            },
            // A future must not be polled after it is done; nothing is lost by a refusal.
            Stage::Asking(..) | Stage::Done => Err(Denied::new(Reason::Closed)),
        };
        match std::mem::replace(stage, Stage::Done) {
            Stage::Waiting(_, lease) => Poll::Ready(answer.map(|permit| lease.take_over(permit))),
            Stage::Asking(..) | Stage::Done => Poll::Ready(answer),
        }
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Keyed<K, R, S> {
    /// Takes now, or returns the gate to wait with.
    fn ask<Q>(&self, key: &Q, demand: Demand) -> Result<Result<Permit<'static>, Lease<R>>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        let shared = &*self.shared;
        let gates = &shared.gates;
        if is_timeless::<R>() {
            if let Some(lease) = shared.timeless_gate(key) {
                return Ok(Err(lease));
            }
        } else if let Some(now) = shared.take_short(key, demand.cost) {
            gates.totals.granted();
            return Ok(Ok(Permit::spent(demand.granted(now))));
        }
        let how = if gates.lets_wait(demand) {
            How::Wait
        } else {
            How::Try
        };
        // A wait for a refill needs the precise time.
        let asked = Asked::at(gates.clock.precise_now());
        match shared.decide(key, demand, asked, how) {
            Ok(Decided::Granted(taken)) => {
                gates.totals.granted();
                Ok(Ok(Permit::spent(taken.grant(demand)).in_era(taken.era)))
            }
            Ok(Decided::Ask(lease)) => Ok(Err(lease)),
            Err(denied) => {
                gates.totals.denied();
                Err(denied)
            }
        }
    }
}

impl<K: Hash + Eq, R: Rule + Clone, S: BuildHasher> Shared<K, R, S> {
    /// Returns the gate of a key, and creates it if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for another key.
    pub(super) fn lease<Q>(&self, key: &Q, now: Moment) -> Result<Lease<R>, Denied>
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        match self.step(key, now, |_| Done::<()>::NeedsGate)? {
            Step::Gate(lease) => Ok(lease),
            Step::Done(()) => unreachable!("it needs a gate"),
        }
    }
}

impl<K, Q: ?Sized, R: Rule, S> fmt::Debug for AcquireKey<'_, K, Q, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage {
            Stage::Asking(..) => "AcquireKey(asking)",
            Stage::Waiting(..) => "AcquireKey(waiting)",
            Stage::Done => "AcquireKey(done)",
        })
    }
}
