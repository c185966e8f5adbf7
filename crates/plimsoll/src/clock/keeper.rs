//! The one thread of the process that rings the alarms of the machine's clock.
//!
//! It shares only the list of alarms with other threads, behind one lock. The thread rings alarms that are due. When
//! none is due, it stores the moment until which it sleeps, under that lock. A thread that sets an earlier alarm reads
//! that moment under the same lock, and wakes the thread. The thread reads the time itself, so it may be late, but no
//! decision depends on it.
//!
//! A panic of a target does not end the thread. If the thread has ended anyway, or is missing because the process was
//! forked, the next caller that sets an alarm starts another.

use std::process;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use super::alarms::{Alarms, Setting};
use super::time;
use crate::Moment;
use crate::sync::{AtomicU32, Condvar, Ordering};
use crate::unwind::discard;

pub(super) struct Keeper {
    pub(super) alarms: Alarms,
    bell: Condvar,
    /// The process in which the thread runs, 0 if it does not.
    process: AtomicU32,
}

static KEEPER: LazyLock<Keeper> = LazyLock::new(Keeper::new);

/// The keeper of this process.
pub(super) fn keeper() -> &'static Keeper {
    &KEEPER
}

impl Keeper {
    pub(super) fn new() -> Self {
        Self {
            alarms: Alarms::default(),
            bell: Condvar::new(),
            process: AtomicU32::new(0),
        }
    }

    /// Sets an alarm, and starts the thread that rings it if there is none.
    pub(super) fn set(&'static self, setting: Setting) {
        self.note(setting);
        if setting.at.is_known() {
            self.attend();
        }
    }

    /// Starts the thread if there is none.
    pub(super) fn attend(&'static self) {
        let this = process::id();
        if self.process.load(Ordering::Acquire) != this {
            self.start(this);
        }
    }

    /// Sets an alarm and wakes the thread if it means to sleep longer.
    pub(super) fn note(&self, setting: Setting) {
        let mut inner = self.alarms.lock();
        inner.set(setting);
        let wake = setting.at < inner.asleep_until;
        if wake {
            // Once is enough.
            inner.asleep_until = Moment::ORIGIN;
        }
        drop(inner);
        if wake {
            self.bell.notify_one();
        }
    }

    #[cold]
    fn start(&'static self, this: u32) {
        let before = self.process.load(Ordering::Acquire);
        let mine = before != this
            && self
                .process
                .compare_exchange(before, this, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if !mine {
            return;
        }
        let running = Running {
            keeper: self,
            process: this,
        };
        // If the system has no thread now, the closure is dropped, and the next caller that sets an alarm tries again.
        let _ = thread::Builder::new()
            .name("plimsoll-clock".to_owned())
            .spawn(move || {
                // Moved in as a whole, so that dropping it records the end of the thread.
                let running = running;
                running.keeper.keep(time::precise_now, || true);
            });
    }

    /// The loop of the thread: rings alarms when they are due, until it is stopped.
    pub(super) fn keep(&self, now: impl Fn() -> Moment, go_on: impl Fn() -> bool) {
        loop {
            let mut inner = self.alarms.lock();
            if !go_on() {
                return;
            }
            let time = now();
            if let Some(due) = inner.pop_due(time) {
                drop(inner);
                if let Err(panic) = due.ring(time) {
                    discard(panic);
                }
                continue;
            }
            // Without an alarm the thread sleeps until one is set.
            let until = inner.next().unwrap_or(Moment::NEVER);
            inner.asleep_until = until;
            let span = Duration::from_nanos(until.nanos_since(time).min(LONGEST_NANOS));
            let waited = self.bell.wait_timeout(inner, span);
            let mut inner = match waited {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
            inner.asleep_until = Moment::ORIGIN;
        }
    }
}

#[cfg(all(test, loom))]
impl Keeper {
    /// Wakes the thread, as the end of its sleep would.
    pub(super) fn wake(&self) {
        drop(self.alarms.lock());
        self.bell.notify_one();
    }
}

/// The longest sleep in one piece: a day.
const LONGEST_NANOS: u64 = 86_400_000_000_000;

/// Records the end of the thread, also if a panic ended it.
struct Running {
    keeper: &'static Keeper,
    process: u32,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.keeper.process.compare_exchange(
            self.process,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Weak, mpsc};
    use std::time::Duration;

    use super::{Keeper, Moment, Ordering, Setting};
    use crate::clock::Ring;

    /// Longer than anything here takes on a busy machine.
    const LONG: Duration = Duration::from_secs(20);

    /// Records that it was rung, and then panics if it is set to.
    struct Bell(mpsc::Sender<u64>, bool);

    impl Ring for Bell {
        fn ring(&self, _now: Moment, version: u64) {
            let _ = self.0.send(version);
            assert!(!self.1, "one who panics");
        }
    }

    fn keeper() -> &'static Keeper {
        Box::leak(Box::new(Keeper::new()))
    }

    fn setting(keeper: &Keeper, bell: &Arc<Bell>, version: u64) -> Setting {
        let weak: Weak<Bell> = Arc::downgrade(bell);
        Setting {
            alarm: keeper.alarms.register(weak),
            at: Moment::from_nanos(1),
            version,
        }
    }

    /// A child of `fork` inherits the alarms, and the record of a thread that stayed in the parent. The child relied on
    /// that record, and its waiters were never served.
    #[test]
    fn a_process_that_has_inherited_a_keeper_starts_a_thread_of_its_own() {
        let keeper = keeper();
        let parent = std::process::id().wrapping_add(1);
        keeper.process.store(parent, Ordering::Release);
        let (rung, is_rung) = mpsc::channel();
        let bell = Arc::new(Bell(rung, false));
        let earlier = setting(keeper, &bell, 7);
        // The parent's thread has recorded its sleep and was about to wake by itself.
        keeper.note(earlier);
        keeper.alarms.lock().asleep_until = Moment::from_nanos(1);
        let later = setting(keeper, &bell, 8);
        keeper.set(Setting {
            at: Moment::from_nanos(2),
            ..later
        });
        assert_eq!(is_rung.recv_timeout(LONG), Ok(7));
        assert_eq!(is_rung.recv_timeout(LONG), Ok(8));
    }

    #[test]
    fn one_who_panics_does_not_end_the_thread() {
        let keeper = keeper();
        let (rung, is_rung) = mpsc::channel();
        let bell = Arc::new(Bell(rung, true));
        for version in 1..=3 {
            keeper.set(setting(keeper, &bell, version));
            assert_eq!(is_rung.recv_timeout(LONG), Ok(version));
        }
        assert_eq!(keeper.process.load(Ordering::Acquire), std::process::id());
    }

    #[test]
    fn a_thread_that_has_ended_is_replaced() {
        let keeper = keeper();
        let this = std::process::id();
        keeper.process.store(this, Ordering::Release);
        // However it ends.
        let ended = std::thread::spawn(move || {
            let _running = super::Running {
                keeper,
                process: this,
            };
            panic!("the end of the thread");
        });
        assert!(ended.join().is_err());
        let (rung, is_rung) = mpsc::channel();
        let bell = Arc::new(Bell(rung, false));
        keeper.set(setting(keeper, &bell, 1));
        assert_eq!(is_rung.recv_timeout(LONG), Ok(1));
    }
}
