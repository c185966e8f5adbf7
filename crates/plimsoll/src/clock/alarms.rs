use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use super::Ring;
use crate::Moment;

/// One who may set an alarm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AlarmId(u32);

/// All alarms of a clock, the earliest first.
///
/// Setting an alarm anew leaves the old entry in the heap, marked by its version as stale; stale
/// entries are dropped when they come up, or all at once when they are the most.
#[derive(Default)]
pub(super) struct Alarms(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Moment,
    slot: u32,
    version: u32,
}

struct Slot {
    version: u32,
    target: Option<Weak<dyn Ring>>,
}

impl Alarms {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Inner {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register(&self, target: Weak<dyn Ring>) -> AlarmId {
        let mut inner = self.lock();
        if let Some(free) = inner.free.pop() {
            inner.slots[free as usize].target = Some(target);
            return AlarmId(free);
        }
        let slot = u32::try_from(inner.slots.len()).unwrap_or(u32::MAX);
        inner.slots.push(Slot {
            version: 0,
            target: Some(target),
        });
        AlarmId(slot)
    }

    /// Returns whether this alarm is now the next one.
    pub(super) fn set(&self, alarm: AlarmId, at: Moment) -> bool {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let slot = &mut inner.slots[alarm.0 as usize];
        slot.version = slot.version.wrapping_add(1);
        if !at.is_known() {
            return false;
        }
        let entry = Entry {
            at,
            slot: alarm.0,
            version: slot.version,
        };
        if inner.heap.len() > 64 + 2 * inner.slots.len() {
            let slots = &inner.slots;
            inner.heap.retain(|Reverse(entry)| entry.is_fresh(slots));
        }
        let earliest = inner.heap.peek().is_none_or(|Reverse(first)| at < first.at);
        inner.heap.push(Reverse(entry));
        earliest
    }

    pub(super) fn release(&self, alarm: AlarmId) {
        let mut inner = self.lock();
        let slot = &mut inner.slots[alarm.0 as usize];
        slot.version = slot.version.wrapping_add(1);
        let target = slot.target.take();
        inner.free.push(alarm.0);
        // Dropping the last reference to a target frees its memory: not under the lock.
        drop(inner);
        drop(target);
    }

    /// When the next alarm is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.lock().next().map(|entry| entry.at)
    }

    /// Takes out the next alarm if it is due at `now`.
    pub(super) fn pop_due(&self, now: Moment) -> Option<(Moment, Weak<dyn Ring>)> {
        let mut inner = self.lock();
        let entry = inner.next().filter(|entry| entry.at <= now)?;
        inner.heap.pop();
        let target = inner.slots[entry.slot as usize].target.clone()?;
        Some((entry.at, target))
    }

    /// Rings everything that is due at `now`.
    pub(super) fn ring_due(&self, now: Moment) {
        while let Some((_, target)) = self.pop_due(now) {
            if let Some(target) = target.upgrade() {
                target.ring(now);
            }
        }
    }
}

impl Inner {
    fn next(&mut self) -> Option<Entry> {
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
        slots[self.slot as usize].version == self.version
    }
}
