use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::AlarmId;
use super::alarms::Alarms;
use crate::Moment;

/// Rings alarms from a task of the runtime. The task ends when no alarm is set.
pub(super) struct Driver {
    runtime: Handle,
    origin: Instant,
    /// The latest moment anybody has seen: threads outside a paused runtime see another time.
    latest: AtomicU64,
    alarms: Alarms,
    driven: Mutex<bool>,
    earlier: Notify,
}

impl Driver {
    #[track_caller]
    pub(super) fn new() -> Self {
        Self {
            runtime: Handle::current(),
            origin: Instant::now(),
            latest: AtomicU64::new(0),
            alarms: Alarms::new(),
            driven: Mutex::new(false),
            earlier: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> Moment {
        let elapsed = crate::moment::saturating_nanos(Instant::now() - self.origin);
        let before = self.latest.fetch_max(elapsed, Ordering::AcqRel);
        Moment::from_nanos(before.max(elapsed))
    }

    pub(super) fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    pub(super) fn set(this: &Arc<Self>, alarm: AlarmId, at: Moment) {
        // One that is taken back may have been all the task still waits for.
        if !this.alarms.set(alarm, at) && at.is_known() {
            return;
        }
        let mut driven = this.driven.lock().unwrap_or_else(PoisonError::into_inner);
        if *driven {
            this.earlier.notify_one();
        } else if at.is_known() {
            *driven = true;
            this.runtime.spawn(Arc::clone(this).drive());
        }
    }

    async fn drive(self: Arc<Self>) {
        while let Some(next) = self.next_or_end() {
            let next = self.origin + next.since(Moment::ORIGIN);
            tokio::select! {
                () = tokio::time::sleep_until(next) => self.alarms.ring_due(self.now()),
                () = self.earlier.notified() => {}
            }
        }
    }

    /// The next alarm; without one, nobody drives any more.
    fn next_or_end(&self) -> Option<Moment> {
        let mut driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.alarms.next();
        *driven = next.is_some();
        next
    }
}
