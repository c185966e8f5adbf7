//! The primitives that gates and clocks are built on, so that the model checker can put its own in their place.

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
