//! The primitives that gates and clocks are built on, so that the model checker can put its own in their place.

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
/// Threads that exchange one word take its line from each other. What else lies there goes with it: a thread that reads it after
/// its exchange has to fetch the line back first, and takes it from the thread that has it by then. And without this, what
/// else lies there depends on where the allocator happens to put the limiter.
///
/// Not in models: several gates are locked in the order of their addresses, and what the allocator aligns lies elsewhere in each
/// run of a model, which has to be the same.
#[cfg_attr(not(loom), repr(align(64)))]
pub(crate) struct OwnLine<T>(pub(crate) T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
