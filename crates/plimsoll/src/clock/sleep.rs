use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::{AlarmId, Clock, Ring};
use crate::Moment;

/// Waits until a clock shows a moment. See [`Clock::sleep_until`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    clock: Clock,
    until: Moment,
    alarm: Option<(AlarmId, Arc<Sleeper>)>,
}

/// The one to wake.
#[derive(Default)]
struct Sleeper(Mutex<Option<Waker>>);

impl Ring for Sleeper {
    fn ring(&self, _now: Moment) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Sleep {
    pub(super) fn new(clock: Clock, until: Moment) -> Self {
        Self {
            clock,
            until,
            alarm: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.clock.precise_now() >= this.until {
            return Poll::Ready(());
        }
        let (alarm, sleeper) = this.alarm.get_or_insert_with(|| {
            let sleeper = Arc::new(Sleeper::default());
            let weak: Weak<Sleeper> = Arc::downgrade(&sleeper);
            (this.clock.register(weak), sleeper)
        });
        let mut waker = sleeper.0.lock().unwrap_or_else(PoisonError::into_inner);
        *waker = Some(cx.waker().clone());
        drop(waker);
        if this.clock.set(*alarm, this.until) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((alarm, _)) = self.alarm.take() {
            self.clock.release(alarm);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("until", &self.until).finish()
    }
}
