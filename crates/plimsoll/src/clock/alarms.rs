use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};

use super::Ring;
use crate::Moment;
use crate::sync::{Mutex, MutexGuard, lock};
#[cfg(feature = "tokio")]
use crate::unwind::First;
use crate::unwind::{Payload, isolated};

/// The handle of an alarm, by which its owner sets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AlarmId(u32);

/// The time to which an alarm is set.
///
/// Its owner decides on it behind a lock of its own and sets it when that lock is free, so two settings may
/// arrive in the wrong order. The version says which one was decided on last: it wins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) alarm: AlarmId,
    /// The moment at which to ring; never, to cancel the alarm.
    pub(crate) at: Moment,
    /// Grows with each decision of the owner, from 1.
    pub(crate) version: u64,
}

/// All alarms of a clock, the earliest first.
///
/// Setting an alarm again leaves the old entry in the heap, marked by its version as stale; stale entries are dropped
/// when they reach the top, or all at once when they are the majority.
pub(super) struct Alarms(Mutex<Inner>);

#[derive(Default)]
pub(super) struct Inner {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The moment until which the thread that rings means to sleep; the origin while it is awake. Only the machine's
    /// clock has such a thread.
    pub(super) asleep_until: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Moment,
    slot: u32,
    /// The generation of the owner of a slot, so that no alarm of a former owner rings for the present one.
    set: u64,
}

#[derive(Default)]
struct Slot {
    /// How often the slot was set, by all of its owners.
    set: u64,
    /// The version of the latest setting.
    version: u64,
    target: Option<Weak<dyn Ring>>,
}

/// An alarm that is due, and the target that it rings.
pub(super) struct Due {
    pub(super) at: Moment,
    version: u64,
    target: Weak<dyn Ring>,
}

impl Due {
    /// Rings the target. A panic of the target does not end the thread that rings.
    pub(super) fn ring(self, now: Moment) -> Result<(), Payload> {
        isolated(|| {
            let target: Option<Arc<dyn Ring>> = self.target.upgrade();
            if let Some(target) = target {
                target.ring(now, self.version);
            }
        })
    }
}

impl Default for Alarms {
    fn default() -> Self {
        Self(Mutex::new(Inner::default()))
    }
}

impl Alarms {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    pub(super) fn register(&self, target: Weak<dyn Ring>) -> AlarmId {
        let mut inner = self.lock();
        if let Some(free) = inner.free.pop() {
            let slot = &mut inner.slots[free as usize];
            slot.version = 0;
            slot.target = Some(target);
            return AlarmId(free);
        }
        let slot = u32::try_from(inner.slots.len()).unwrap_or(u32::MAX);
        inner.slots.push(Slot {
            target: Some(target),
            ..Slot::default()
        });
        AlarmId(slot)
    }

    /// Returns whether this alarm is now the next one.
    pub(super) fn set(&self, setting: Setting) -> bool {
        self.lock().set(setting)
    }

    pub(super) fn release(&self, alarm: AlarmId) {
        let mut inner = self.lock();
        let slot = &mut inner.slots[alarm.0 as usize];
        slot.set += 1;
        let target = slot.target.take();
        inner.free.push(alarm.0);
        // Dropping the last reference to a target frees its memory, which must not happen under the lock.
        drop(inner);
        drop(target);
    }

    /// When the next alarm is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.lock().next()
    }

    /// Takes out the next alarm if it is due at `now`.
    pub(super) fn pop_due(&self, now: Moment) -> Option<Due> {
        self.lock().pop_due(now)
    }

    /// Rings all alarms that are due at `now`. The first panic of a target is stored in `panics`, for the caller to resume.
    #[cfg(feature = "tokio")]
    pub(super) fn ring_due(&self, now: Moment, panics: &mut First) {
        while let Some(due) = self.pop_due(now) {
            if let Err(panic) = due.ring(now) {
                panics.keep(panic);
            }
        }
    }
}

impl Inner {
    /// Returns whether this alarm is now the next one.
    pub(super) fn set(&mut self, setting: Setting) -> bool {
        let Setting { alarm, at, version } = setting;
        let slot = &mut self.slots[alarm.0 as usize];
        if version <= slot.version {
            return false;
        }
        slot.version = version;
        slot.set += 1;
        if !at.is_known() {
            return false;
        }
        let entry = Entry {
            at,
            slot: alarm.0,
            set: slot.set,
        };
        if self.heap.len() > 64 + 2 * self.slots.len() {
            let slots = &self.slots;
            self.heap.retain(|Reverse(entry)| entry.is_fresh(slots));
        }
        let earliest = self.heap.peek().is_none_or(|Reverse(first)| at < first.at);
        self.heap.push(Reverse(entry));
        earliest
    }

    pub(super) fn next(&mut self) -> Option<Moment> {
        self.first().map(|entry| entry.at)
    }

    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Due> {
        let entry = self.first().filter(|entry| entry.at <= now)?;
        self.heap.pop();
        let slot = &self.slots[entry.slot as usize];
        Some(Due {
            at: entry.at,
            version: slot.version,
            target: slot.target.clone()?,
        })
    }

    fn first(&mut self) -> Option<Entry> {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if entry.is_fresh(&self.slots) {
                return Some(*entry);
            }
            self.heap.pop();
        }
        None
    }
}

impl Entry {
    fn is_fresh(&self, slots: &[Slot]) -> bool {
        slots[self.slot as usize].set == self.set
    }
}
