//! Wakes waiters for several limiters when one of the limiters is replaced.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use plimsoll::Permit;
use plimsoll::together::WatchReplaced;

use super::binding::Binding;
use super::version::{Version, lock};

/// The wakers to wake when a binding gets another version.
pub(super) type Watchers = Mutex<BTreeMap<u64, Waker>>;

/// Watches whether a binding has got another version.
pub(super) struct Watch {
    binding: Arc<Binding>,
    version: Arc<Version>,
    number: u64,
}

impl Watch {
    pub(super) fn new(binding: Arc<Binding>, version: Arc<Version>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            binding,
            version,
            number,
        }
    }
}

impl WatchReplaced for Watch {
    fn is_replaced(&self, waker: &Waker) -> bool {
        // Registered before the check, so that a replacement after it finds the waker.
        let before = lock(&self.binding.watchers).insert(self.number, waker.clone());
        // Dropped outside the lock, because dropping a waker may drop another watch.
        drop(before);
        let current = self.binding.current();
        !current.is_ok_and(|current| Arc::ptr_eq(&current, &self.version))
    }

    fn own(&self, permit: Permit<'static>) -> Permit<'static> {
        self.version.own_shared(permit)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let waker = lock(&self.binding.watchers).remove(&self.number);
        drop(waker);
    }
}

/// Takes all wakers.
pub(super) fn drain(watchers: &Watchers) -> impl Iterator<Item = Waker> + use<> {
    std::mem::take(&mut *lock(watchers)).into_values()
}
