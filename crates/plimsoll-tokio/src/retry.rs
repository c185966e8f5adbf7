use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use plimsoll::kinds::Resource;
use plimsoll::{Acquire, Demand, Denied, Permit, Reason, Sleep};

/// The shortest pause after a refusal.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest pause, which is also that after a refusal that does not say when to come back.
const LONGEST: Duration = Duration::from_secs(1);

/// Waits for a permit as long as it takes: in the limiter's queue, and where there is no room in it, or no queue,
/// by coming back when the refusal says so.
pub(crate) struct Patient {
    limiter: Resource,
    demand: Demand,
    stage: Stage,
}

enum Stage {
    Asking(Acquire<'static>),
    Pausing(Sleep),
}

impl Patient {
    pub(crate) fn new(limiter: Resource, demand: Demand) -> Self {
        let stage = Stage::Asking(limiter.acquire_owned(demand));
        Self {
            limiter,
            demand,
            stage,
        }
    }

    /// What was asked for.
    pub(crate) fn cost(&self) -> u32 {
        self.demand.cost()
    }
}

impl Future for Patient {
    /// A refusal is final: coming back would not help.
    type Output = Result<Permit<'static>, Denied>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            this.stage = match &mut this.stage {
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
