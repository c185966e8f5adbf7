//! Isolation of foreign code (a waker, a rule) that panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs `op` and catches its panic.
///
/// The data that `op` works on must be consistent wherever foreign code is called.
#[inline]
pub(crate) fn isolated<T>(op: impl FnOnce() -> T) -> Result<T, Payload> {
    if cfg!(loom) {
        // The model checker reports by panics, which must not be caught.
        return Ok(op());
    }
    catch_unwind(AssertUnwindSafe(op))
}

/// Runs `op` and discards its panic, which only the panic hook reports.
#[inline]
pub(crate) fn quietly(op: impl FnOnce()) {
    if let Err(panic) = isolated(op) {
        discard(panic);
    }
}

/// The first of several panics, to resume once everything else is done.
#[derive(Default)]
pub(crate) struct First(Option<Payload>);

impl First {
    #[cold]
    pub(crate) fn keep(&mut self, panic: Payload) {
        match self.0 {
            Some(_) => discard(panic),
            None => self.0 = Some(panic),
        }
    }

    /// Whether there was one.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    #[cold]
    fn resume_now(&mut self) {
        if let Some(panic) = self.0.take() {
            resume_unwind(panic);
        }
    }

    /// Resumes the panic, if there was one. Not while the thread panics already: two would abort the process.
    #[inline]
    pub(crate) fn resume(&mut self) {
        if self.0.is_some() && !thread::panicking() {
            self.resume_now();
        }
    }
}

/// Drops the payload of a panic. The hook has reported the panic already.
#[cold]
pub(crate) fn discard(panic: Payload) {
    if let Err(again) = isolated(|| drop(panic)) {
        // Its drop panics, perhaps repeatedly; leaking its memory is the lesser evil.
        Box::leak(again);
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(panic) = self.0.take() {
            discard(panic);
        }
    }
}
