use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use plimsoll::{Moment, Sleep};

use super::shared::Shared;

/// The future of [`Sampler::run`](super::Sampler::run). It never completes.
#[must_use = "futures do nothing unless they are polled"]
pub struct Run {
    shared: Arc<Shared>,
    driver: u64,
    /// The last tick.
    ticked_at: Option<Moment>,
    sleep: Option<(Moment, Sleep)>,
}

impl Run {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let mut inside = shared.inside();
        let driver = inside.next_driver;
        inside.next_driver += 1;
        drop(inside);
        Self {
            shared,
            driver,
            ticked_at: None,
            sleep: None,
        }
    }

    /// Registers to be woken for new limiters.
    fn listen(&self, waker: &Waker) {
        let waker = waker.clone();
        let drivers = &mut self.shared.inside().drivers;
        drivers.retain(|(driver, _)| *driver != self.driver);
        drivers.push((self.driver, waker));
    }
}

impl Future for Run {
    type Output = Infallible;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Infallible> {
        let this = self.get_mut();
        // Before reading the list, so that no later limiter is missed.
        this.listen(cx.waker());
        loop {
            let Some(interval) = this.shared.shortest() else {
                this.sleep = None;
                return Poll::Pending;
            };
            let now = this.shared.clock.precise_now();
            let tick_at = match this.ticked_at {
                Some(last) => last.plus_nanos(interval),
                None => now,
            };
            if now >= tick_at {
                this.shared.sample_due(now.plus_nanos(interval));
                this.ticked_at = Some(now);
                continue;
            }
            let sleep = match &mut this.sleep {
                Some((until, sleep)) if *until == tick_at => sleep,
                other => {
                    let sleep = this.shared.clock.sleep_until(tick_at);
                    &mut other.insert((tick_at, sleep)).1
                }
            };
            if Pin::new(sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let drivers = &mut self.shared.inside().drivers;
        drivers.retain(|(driver, _)| *driver != self.driver);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("ticked_at", &self.ticked_at)
            .finish_non_exhaustive()
    }
}
