//! A thread that ends when its owner is dropped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The name of the thread; Linux shows 15 characters.
const NAME: &str = "plimsoll-sample";

/// The thread that ends when this is dropped.
pub(super) struct Guarded {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guarded {
    /// Runs `work` in a new thread. It parks to wait, and returns soon after its flag is set.
    pub(super) fn spawn(work: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name(NAME.into())
            .spawn(move || work(&told))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A source that owns the last guard drops it in the thread itself, which cannot wait for its own end.
            if thread.thread().id() != thread::current().id() {
                let _panicked = thread.join();
            }
        }
    }
}
