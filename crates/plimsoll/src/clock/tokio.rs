use std::sync::{Arc, Weak};
use std::thread;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::alarms::{AlarmId, Alarms, Setting};
use super::keeper::keeper;
use super::{Ring, time};
use crate::Moment;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::unwind::First;

/// Rings alarms from a task of each runtime in which a caller waits. A task ends when no alarm is set.
///
/// Where there is no runtime, or the last one ended before its alarms rang, the thread of the machine's clock rings
/// instead, after the same span of real time.
pub(super) struct Driver {
    /// The runtime in which the clock was made, for callers that wait outside of any runtime.
    built_in: Option<Handle>,
    origin: Instant,
    /// The latest moment that any thread has seen: threads outside a paused runtime see another time.
    latest: AtomicU64,
    alarms: Alarms,
    drives: Mutex<Drives>,
}

#[derive(Default)]
struct Drives {
    tasks: Vec<Task>,
    /// Runtimes in which a task cannot wait, because they have no timer.
    unfit: Vec<Id>,
    instead: Instead,
}

struct Task {
    runtime: Id,
    /// Notified when an earlier alarm was set, or the last one was cancelled.
    changed: Arc<Notify>,
}

/// The alarm on the machine's clock that replaces the tasks while there are none.
#[derive(Default)]
struct Instead {
    alarm: Option<AlarmId>,
    version: u64,
    /// What this clock shows when it rings.
    shows: Option<Moment>,
}

impl Driver {
    pub(super) fn new() -> Self {
        Self {
            built_in: Handle::try_current().ok(),
            origin: Instant::now(),
            latest: AtomicU64::new(0),
            alarms: Alarms::default(),
            drives: Mutex::new(Drives::default()),
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

    pub(super) fn set(this: &Arc<Self>, setting: Setting) {
        let known = setting.at.is_known();
        // A cancelled alarm may have been the last one that the tasks wait for.
        let changed = this.alarms.set(setting) || !known;
        if changed {
            let drives = lock(&this.drives);
            for task in &drives.tasks {
                task.changed.notify_one();
            }
        }
        if known {
            Self::attend(this);
        }
    }

    /// Starts a task that rings, in a runtime that lives as long as the caller that waits.
    pub(super) fn attend(this: &Arc<Self>) {
        let runtime = Handle::try_current().ok().or_else(|| this.built_in.clone());
        let mut drives = lock(&this.drives);
        let fit = runtime.filter(|runtime| !drives.unfit.contains(&runtime.id()));
        let Some(runtime) = fit else {
            if drives.tasks.is_empty() {
                this.ring_by_thread(drives, Arc::downgrade(this));
            }
            return;
        };
        let id = runtime.id();
        if drives.tasks.iter().any(|task| task.runtime == id) {
            return;
        }
        let changed = Arc::new(Notify::new());
        drives.tasks.push(Task {
            runtime: id,
            changed: Arc::clone(&changed),
        });
        let driving = Driving {
            driver: Arc::clone(this),
            runtime: id,
            changed,
        };
        let instead = drives.instead.taken_back();
        // A runtime that has ended drops the task at once, which then needs the lock.
        drop(drives);
        if let Some(setting) = instead {
            keeper().set(setting);
        }
        drop(runtime.spawn(driving.drive()));
    }

    /// Lets the machine's thread ring for the next alarm, if there is one.
    fn ring_by_thread(&self, mut drives: crate::sync::MutexGuard<'_, Drives>, me: Weak<Self>) {
        let Some(next) = self.alarms.next() else {
            return;
        };
        let instead = &mut drives.instead;
        instead.version += 1;
        instead.shows = Some(next);
        let setting = Setting {
            alarm: *instead
                .alarm
                .get_or_insert_with(|| keeper().alarms.register(me)),
            at: time::precise_now().plus(next.since(self.now())),
            version: instead.version,
        };
        drop(drives);
        keeper().set(setting);
    }
}

impl Instead {
    fn taken_back(&mut self) -> Option<Setting> {
        self.shows.take()?;
        self.version += 1;
        Some(Setting {
            alarm: self.alarm?,
            at: Moment::NEVER,
            version: self.version,
        })
    }
}

/// The machine's thread rings.
impl Ring for Driver {
    fn ring(&self, _now: Moment, version: u64) {
        let mut drives = lock(&self.drives);
        if drives.instead.version != version {
            return;
        }
        let Some(shows) = drives.instead.shows.take() else {
            return;
        };
        drop(drives);
        self.latest.fetch_max(shows.as_nanos(), Ordering::AcqRel);
        let mut panics = First::default();
        self.alarms.ring_due(self.now(), &mut panics);
        let drives = lock(&self.drives);
        if drives.tasks.is_empty() && drives.instead.shows.is_none() {
            // The alarm is registered by now, so this target is never used.
            self.ring_by_thread(drives, Weak::new());
        }
        panics.resume();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(alarm) = lock(&self.drives).instead.alarm {
            keeper().alarms.release(alarm);
        }
    }
}

/// What the task of a runtime holds while it lives.
struct Driving {
    driver: Arc<Driver>,
    runtime: Id,
    changed: Arc<Notify>,
}

impl Driving {
    async fn drive(self) {
        let driver = &*self.driver;
        while let Some(next) = self.next_or_end() {
            let next = driver.origin + next.since(Moment::ORIGIN);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {
                    let mut panics = First::default();
                    driver.alarms.ring_due(driver.now(), &mut panics);
                }
                () = self.changed.notified() => {}
            }
        }
    }

    /// The next alarm. Without one, this task ends.
    fn next_or_end(&self) -> Option<Moment> {
        let mut drives = lock(&self.driver.drives);
        let next = self.driver.alarms.next();
        if next.is_none() {
            drives.remove(self);
        }
        next
    }
}

impl Drives {
    fn remove(&mut self, driving: &Driving) {
        self.tasks
            .retain(|task| !Arc::ptr_eq(&task.changed, &driving.changed));
    }
}

/// The task is done, or its runtime has ended and dropped it.
impl Drop for Driving {
    fn drop(&mut self) {
        let mut drives = lock(&self.driver.drives);
        drives.remove(self);
        if thread::panicking() {
            drives.unfit.push(self.runtime);
        }
        if drives.tasks.is_empty() {
            self.driver
                .ring_by_thread(drives, Arc::downgrade(&self.driver));
        }
    }
}
