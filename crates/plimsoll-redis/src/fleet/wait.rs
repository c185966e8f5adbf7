//! Waits until the retry time of a refusal, and asks again.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use plimsoll::{Demand, Denied, Moment, Permit, Reason};
use tokio::sync::{Notify, Semaphore};

use super::shared::Shared;

/// A bounded number of waiters.
pub(super) struct Waiting {
    places: Semaphore,
    bound: u64,
}

impl Waiting {
    pub(super) fn up_to(bound: u64) -> Option<Self> {
        let places = usize::try_from(bound).map_or(Semaphore::MAX_PERMITS, |places| {
            places.min(Semaphore::MAX_PERMITS)
        });
        (bound > 0).then(|| Self {
            places: Semaphore::new(places),
            bound,
        })
    }

    /// The number of waiters, and the maximum.
    pub(super) fn count(&self) -> (u64, u64) {
        let bound = self.bound;
        let free = u64::try_from(self.places.available_permits()).unwrap_or(bound);
        (bound.saturating_sub(free), bound)
    }
}

/// Notifies waiters when a limiter is closed.
#[derive(Default)]
pub(super) struct Closing {
    closed: AtomicBool,
    bell: Notify,
}

impl Closing {
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Decides a demand. After a refusal, waits and retries if the demand allows it and the number of waiters is below the bound.
    pub(super) async fn acquire(
        self: Arc<Self>,
        key: Arc<[u8]>,
        demand: Demand,
        closing: Arc<Closing>,
    ) -> Result<Permit<'static>, Denied> {
        // `UndoOnDrop` needs tokio, and the caller may be a plain thread.
        let away = tokio::runtime::Handle::try_current().is_err();
        let inner = self.now();
        let Some(runtime) = inner.background().handle() else {
            return inner.counted(Err(inner.unknown()));
        };
        if away {
            let answer = runtime.spawn(Arc::clone(&self).acquire_here(key, demand, closing));
            return answer.await.unwrap_or_else(|_| Err(inner.unknown()));
        }
        self.acquire_here(key, demand, closing).await
    }

    async fn acquire_here(
        self: Arc<Self>,
        key: Arc<[u8]>,
        demand: Demand,
        closing: Arc<Closing>,
    ) -> Result<Permit<'static>, Denied> {
        let began = self.clock().now();
        let answer = match self.now().ask(&key, demand).await {
            Err(denied) => self.wait(&key, demand, began, &closing, denied).await,
            granted => granted,
        };
        self.now().counted(answer)
    }

    async fn wait(
        self: &Arc<Self>,
        key: &Arc<[u8]>,
        demand: Demand,
        began: Moment,
        closing: &Closing,
        mut denied: Denied,
    ) -> Result<Permit<'static>, Denied> {
        let inner = self.now();
        let Some(waiting) = inner.waiting.as_ref().filter(|_| !demand.is_at_once()) else {
            return Err(denied);
        };
        let deadline = demand.deadline(began);
        let mut place = None;
        loop {
            let passing = matches!(denied.reason(), Reason::Exhausted | Reason::TooSoon);
            let Some(after) = denied.retry_after().filter(|_| passing) else {
                return Err(denied);
            };
            let ready = self.clock().precise_now().plus(after);
            if deadline.is_some_and(|deadline| deadline < ready) {
                return Err(because(Reason::TimedOut, &denied));
            }
            if place.is_none() {
                place = waiting.places.try_acquire().ok();
            }
            if place.is_none() {
                return Err(because(Reason::QueueFull, &denied));
            }
            if !self.sleep(ready, closing).await {
                return Err(because(Reason::Closed, &denied));
            }
            match self.now().ask(key, demand).await {
                Err(again) => denied = again,
                granted => return granted,
            }
        }
    }

    /// Sleeps until a moment. Returns `false` if the limiter is closed first.
    async fn sleep(&self, until: Moment, closing: &Closing) -> bool {
        let mut closed = pin!(closing.bell.notified());
        let mut time = pin!(self.clock().sleep_until(until));
        poll_fn(|cx| {
            // Registers for the notification first, so that a close between the two checks is not missed.
            if closed.as_mut().poll(cx).is_ready() || closing.is_closed() {
                return Poll::Ready(false);
            }
            time.as_mut().poll(cx).map(|()| true)
        })
        .await
    }
}

/// The same refusal, for another reason.
pub(super) fn because(reason: Reason, denied: &Denied) -> Denied {
    let after = |span: Option<Duration>| span.map(|span| Moment::ORIGIN.plus(span));
    let other = Denied::new(reason)
        .with_limit(denied.limit(), denied.remaining())
        .with_ready_at(Moment::ORIGIN, after(denied.retry_after()))
        .with_reset_at(Moment::ORIGIN, after(denied.reset()));
    match denied.limiter() {
        Some(name) => other.with_limiter(name),
        None => other,
    }
}
