//! Every interleaving of the thread that rings with threads that set alarms: no alarm is lost (the model would never
//! end), and none rings for a setting that was replaced.

use std::sync::{Arc, Weak};

use loom::thread;

use super::keeper::Keeper;
use super::{Clock, ClockKind, Ring, Setting};
use crate::Moment;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// A machine whose time is moved by the model.
pub(crate) struct Machine {
    pub(super) keeper: Keeper,
    now: AtomicU64,
    stopped: AtomicBool,
}

impl Machine {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            keeper: Keeper::new(),
            now: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn clock(self: &Arc<Self>) -> Clock {
        Clock(ClockKind::Model(Arc::clone(self)))
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::Acquire))
    }

    /// Starts the thread that rings.
    pub(crate) fn start(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let this = Arc::clone(self);
        thread::spawn(move || {
            let go_on = || !this.stopped.load(Ordering::Acquire);
            this.keeper.keep(|| this.now(), go_on);
        })
    }

    /// Time passes. A sleep that ends by it wakes the thread.
    pub(crate) fn advance_to(&self, nanos: u64) {
        self.now.store(nanos, Ordering::Release);
        self.keeper.wake();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.keeper.wake();
    }
}

/// Notes the versions that it is rung for, and ends the thread with the last one.
struct Bell {
    machine: Arc<Machine>,
    rung: AtomicU64,
    last: u64,
}

impl Ring for Bell {
    fn ring(&self, now: Moment, version: u64) {
        assert!(now >= Moment::from_nanos(version), "too early");
        let before = self.rung.swap(version, Ordering::AcqRel);
        assert!(before < version, "{version} after {before}");
        if version == self.last {
            self.machine.stopped.store(true, Ordering::Release);
        }
    }
}

/// A bell that ends the thread when it is rung for version `last`, and the settings by their versions. Version `n`
/// is due at `n`.
fn bell(machine: &Arc<Machine>, last: u64) -> (Arc<Bell>, impl Fn(u64) -> Setting + use<>) {
    let bell = Arc::new(Bell {
        machine: Arc::clone(machine),
        rung: AtomicU64::new(0),
        last,
    });
    let weak: Weak<Bell> = Arc::downgrade(&bell);
    let alarm = machine.keeper.alarms.register(weak);
    let setting = move |version| Setting {
        alarm,
        at: Moment::from_nanos(version),
        version,
    };
    (bell, setting)
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

#[test]
fn an_alarm_that_is_due_is_rung_by_a_thread_that_just_falls_asleep() {
    check(|| {
        let machine = Machine::new();
        machine.advance_to(1);
        let (bell, setting) = bell(&machine, 1);
        let keeper = machine.start();
        machine.keeper.note(setting(1));
        keeper.join().unwrap();
        assert_eq!(bell.rung.load(Ordering::Acquire), 1);
    });
}

#[test]
fn an_earlier_alarm_wakes_a_thread_that_sleeps_for_a_later_one() {
    check(|| {
        let machine = Machine::new();
        let (late, later) = bell(&machine, u64::MAX);
        machine.keeper.note(later(1000));
        machine.advance_to(2);
        let (bell, setting) = bell(&machine, 2);
        let keeper = machine.start();
        machine.keeper.note(setting(2));
        keeper.join().unwrap();
        assert_eq!(bell.rung.load(Ordering::Acquire), 2);
        assert_eq!(late.rung.load(Ordering::Acquire), 0);
    });
}

#[test]
fn the_time_that_passes_wakes_a_thread_that_just_falls_asleep() {
    check(|| {
        let machine = Machine::new();
        let (bell, setting) = bell(&machine, 3);
        machine.keeper.note(setting(3));
        let keeper = machine.start();
        machine.advance_to(3);
        keeper.join().unwrap();
        assert_eq!(bell.rung.load(Ordering::Acquire), 3);
    });
}

/// Two threads that leave the lock of a gate in another order than they decided in.
#[test]
fn of_two_settings_the_one_that_was_decided_on_last_is_rung() {
    check(|| {
        let machine = Machine::new();
        machine.advance_to(9);
        let (bell, setting) = bell(&machine, 2);
        let keeper = machine.start();
        let other = thread::spawn({
            let (machine, first) = (Arc::clone(&machine), setting(1));
            move || machine.keeper.note(first)
        });
        machine.keeper.note(setting(2));
        other.join().unwrap();
        keeper.join().unwrap();
        assert_eq!(bell.rung.load(Ordering::Acquire), 2);
    });
}
