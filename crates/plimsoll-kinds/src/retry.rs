use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use plimsoll::{Acquire, Demand, Denied, Permit, Reason, Sleep};

use crate::resource::Resource;

/// The shortest pause after a refusal.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest pause, and the one after a refusal without a `retry_after`.
const LONGEST: Duration = Duration::from_secs(1);

/// A future that acquires a permit, however long it takes. It waits in the queue of the limiter. If the queue is full
/// or missing, it retries after the time that the refusal reports.
///
/// The pause between two tries is at least 1 ms and at most 1 s; after a refusal without a retry time it is 1 s. A
/// refusal that no retry can change, such as that of a closed limiter, is final.
///
/// ```
/// use plimsoll::{Demand, Gate, TokenBucket};
/// use plimsoll_kinds::{Resource, RetryingAcquire};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limiter = Resource::from(Gate::new(TokenBucket::per_second(1)));
/// let permit = RetryingAcquire::new(limiter.clone(), Demand::ONE).await?;
/// assert_eq!(permit.cost(), 1);
///
/// limiter.close();
/// assert!(RetryingAcquire::new(limiter, Demand::ONE).await.is_err());
/// # Ok::<(), plimsoll::Denied>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct RetryingAcquire {
    limiter: Resource,
    demand: Demand,
    /// Never locked: it makes the containing future `Sync`.
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    Asking(Acquire<'static>),
    Pausing(Sleep),
}

impl RetryingAcquire {
    /// Creates the future, from [`acquire_owned`](plimsoll::Limiter::acquire_owned) of the limiter.
    pub fn new(limiter: Resource, demand: Demand) -> Self {
        let stage = Stage::Asking(limiter.acquire_owned(demand));
        Self {
            limiter,
            demand,
            stage: Mutex::new(stage),
        }
    }

    /// Returns the cost of the demand.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.demand.cost
    }
}

impl Future for RetryingAcquire {
    /// An error is final: a retry would be refused again.
    type Output = Result<Permit<'static>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let stage = this.stage.get_mut().unwrap_or_else(PoisonError::into_inner);
            *stage = match stage {
                Stage::Asking(acquire) => match ready!(Pin::new(acquire).poll(cx)) {
                    Ok(permit) => return Poll::Ready(Ok(permit)),
                    Err(denied) if is_final(denied.reason()) => return Poll::Ready(Err(denied)),
                    Err(denied) => {
                        let pause = denied.retry_after().unwrap_or(LONGEST);
                        let clock = this.limiter.clock();
                        let until = clock.precise_now().plus(pause.clamp(SHORTEST, LONGEST));
                        Stage::Pausing(clock.sleep_until(until))
                    }
                },
                Stage::Pausing(sleep) => {
                    ready!(Pin::new(sleep).poll(cx));
                    Stage::Asking(this.limiter.acquire_owned(this.demand))
                }
            };
        }
    }
}

fn is_final(reason: Reason) -> bool {
    matches!(reason, Reason::Closed | Reason::TooLarge)
}
