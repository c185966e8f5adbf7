use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use super::{AlarmId, Clock, Ring, Setting};
use crate::Moment;
use crate::sync::{Mutex, lock};

/// A future that resolves when a clock shows a moment. See [`Clock::sleep_until`].
///
/// The alarm of its clock wakes it: a thread of the system clock, the timer of tokio, or a call that advances a manual
/// clock. Dropping it releases the alarm.
///
/// ```
/// use plimsoll::ManualClock;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let time = ManualClock::new();
/// let clock = time.clock();
/// let sleep = clock.sleep_until(clock.now().plus(Duration::from_secs(60)));
/// time.advance(Duration::from_secs(60));
/// sleep.await;
/// # });
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    clock: Clock,
    until: Moment,
    alarm: Option<(AlarmId, Arc<Sleeper>)>,
    /// The number of times that the alarm was set.
    version: u64,
}

/// The task to wake.
struct Sleeper(Mutex<Option<Waker>>);

impl Ring for Sleeper {
    fn ring(&self, _now: Moment, _version: u64) {
        let waker = lock(&self.0).take();
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
            version: 0,
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
            let sleeper = Arc::new(Sleeper(Mutex::new(None)));
            let weak: Weak<Sleeper> = Arc::downgrade(&sleeper);
            (this.clock.register(weak), sleeper)
        });
        // Cloned and dropped outside of the lock: either may run anything.
        let waker = cx.waker().clone();
        let former = lock(&sleeper.0).replace(waker);
        drop(former);
        this.version += 1;
        let setting = Setting {
            alarm: *alarm,
            at: this.until,
            version: this.version,
        };
        if this.clock.set(setting) {
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
