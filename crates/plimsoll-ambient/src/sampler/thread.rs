use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::guarded::Guarded;
use super::run::Run;
use super::shared::Shared;

/// A guard that keeps the thread of a sampler running. See [`Sampler::spawn`](super::Sampler::spawn).
///
/// Dropping the last guard stops the thread and waits for its end. The limiters stay valid: they then measure on
/// demand.
#[must_use = "the thread ends when this is dropped"]
#[derive(Clone)]
pub struct SamplerThread {
    _guarded: Arc<Guarded>,
}

impl SamplerThread {
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut place = shared.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = place.upgrade() {
            return Ok(Self { _guarded: running });
        }
        let run = Run::new(Arc::clone(shared));
        let guarded = Arc::new(Guarded::spawn(move |stop| drive(run, stop))?);
        *place = Arc::downgrade(&guarded);
        Ok(Self { _guarded: guarded })
    }
}

fn drive(run: Run, stop: &AtomicBool) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut run = pin!(run);
    // The flag is set before the thread is unparked.
    while !stop.load(Ordering::Acquire) {
        match run.as_mut().poll(&mut cx) {
            Poll::Ready(never) => match never {},
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl fmt::Debug for SamplerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SamplerThread")
    }
}
