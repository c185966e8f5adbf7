//! Those who wait for several limiters, in the queues of gates, and learn when another limiter replaces one of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use plimsoll::Permit;
use plimsoll::together::WatchReplaced;

use super::binding::Binding;
use super::version::{Version, lock};

/// Whom to wake when another limiter comes to stand behind a name.
pub(super) type Watchers = Mutex<BTreeMap<u64, Waker>>;

/// Tells whether another limiter stands behind a name than did before.
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
        // Before it is looked: whoever replaces it afterwards finds the waker.
        let before = lock(&self.binding.watchers).insert(self.number, waker.clone());
        // Not behind the lock: what a waker drops may drop another of these.
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

/// Takes all of them out.
pub(super) fn drain(watchers: &Watchers) -> impl Iterator<Item = Waker> + use<> {
    std::mem::take(&mut *lock(watchers)).into_values()
}
