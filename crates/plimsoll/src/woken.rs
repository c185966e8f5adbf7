use std::cell::Cell;
use std::task::Waker;

use crate::clock::Setting;
use crate::unwind::quietly;

/// What is left to do once the lock is free: to set the alarm, and to wake the tasks that are settled.
///
/// Mostly it is one task. More are kept in a list that the thread uses again and again.
#[derive(Default)]
pub(crate) struct Woken {
    first: Option<Waker>,
    more: Vec<Waker>,
    /// The alarm to set.
    pub(crate) alarm: Option<Setting>,
    /// Whether the moment of an alarm that was set has passed already.
    pub(crate) overdue: bool,
}

thread_local! {
    static SPARE: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

impl Woken {
    /// So many are served in one go; then others get a chance to take the lock.
    const ENOUGH: usize = 32;

    pub(crate) fn push(&mut self, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        if self.first.is_none() {
            self.first = Some(waker);
            return;
        }
        if self.more.capacity() == 0 {
            self.more = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        self.more.push(waker);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.more.len() >= Self::ENOUGH
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && !self.overdue && self.alarm.is_none()
    }

    /// Wakes all. Not under the lock: waking may run anything. A waker that panics does so for itself: neither the others
    /// in the batch nor the caller, whose own grant would be lost with it, hear of it.
    #[inline]
    pub(crate) fn wake(&mut self) {
        if let Some(first) = self.first.take() {
            quietly(|| first.wake());
            if !self.more.is_empty() {
                self.wake_more();
            }
        }
    }

    fn wake_more(&mut self) {
        for waker in self.more.drain(..) {
            quietly(|| waker.wake());
        }
        let spare = std::mem::take(&mut self.more);
        let _kept = SPARE.try_with(|kept| kept.set(spare));
    }
}
