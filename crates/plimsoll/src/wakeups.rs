use std::cell::Cell;
use std::task::Waker;

use crate::clock::Setting;
use crate::unwind::quietly;

/// The work that is left when the lock is free: set the alarm, and wake the tasks of settled demands.
///
/// Usually this is one task. Further wakers go to a list that the thread reuses.
#[derive(Default)]
pub(crate) struct Wakeups {
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

/// The maximum number of waiters that are served in one turn; then other threads may take the lock.
pub(crate) const BATCH: usize = 32;
/// No maximum.
pub(crate) const ALL: usize = usize::MAX;

impl Wakeups {
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

    /// Whether there are `most` tasks to wake in addition to the first.
    pub(crate) fn has(&self, most: usize) -> bool {
        self.more.len() >= most
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && !self.overdue && self.alarm.is_none()
    }

    /// Wakes all tasks. The caller must not hold the lock: waking may run any code. The panic of a waker is discarded: it
    /// reaches neither the other tasks of the batch nor the caller, which would lose its own grant.
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
        let _reused = SPARE.try_with(|list| list.set(spare));
    }
}
