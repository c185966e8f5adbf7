//! The primitives that gates and clocks use, so that the model checker can replace them by its own.

use std::ops::Deref;
use std::sync::PoisonError;

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Locks even if another thread panicked while it held the lock.
///
/// The data behind our locks is consistent between any two statements that run foreign code (a waker's clone or drop),
/// so a panic there poisons nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value on a cache line of its own.
///
/// Threads that exchange one word take its cache line from each other. Other data on that line would move with it: a
/// thread that reads such data after its exchange would have to fetch the line back from another thread. Without this
/// type, the other data on the line would depend on where the allocator puts the limiter.
///
/// It is not aligned in models: several gates are locked in the order of their addresses, and aligned allocations have
/// other addresses in each run of a model, while all runs must be the same.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct OwnLine<T>(pub(crate) T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
