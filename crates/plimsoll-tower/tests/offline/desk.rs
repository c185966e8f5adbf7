//! A service that does nothing by itself.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use tower_service::Service;

/// A service with so many slots. Readiness takes a slot and a clone is not ready because the original is, as it is with
/// tower's own limits and buffers. Work ends when the test says so.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Arc<Mutex<State>>,
    reserved: bool,
}

#[derive(Debug, Default)]
struct State {
    free: usize,
    broken: bool,
    called: Vec<u32>,
    answers: HashMap<u32, Result<u32, Broken>>,
}

/// The error of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken")
    }
}

impl std::error::Error for Broken {}

impl Desk {
    pub(crate) fn new(slots: usize) -> Self {
        let state = State {
            free: slots,
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            reserved: false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How many slots nobody has.
    pub(crate) fn free(&self) -> usize {
        self.state().free
    }

    /// From now on there are so many more.
    pub(crate) fn add_slots(&self, more: usize) {
        self.state().free += more;
    }

    /// From now on it is never ready.
    pub(crate) fn break_down(&self) {
        self.state().broken = true;
    }

    /// The requests it was called with, in order.
    pub(crate) fn called(&self) -> Vec<u32> {
        self.state().called.clone()
    }

    /// The work on this request ends.
    pub(crate) fn answer(&self, request: u32, answer: Result<u32, Broken>) {
        self.state().answers.insert(request, answer);
    }
}

impl Clone for Desk {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            reserved: false,
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if self.reserved {
            self.add_slots(1);
        }
    }
}

impl Service<u32> for Desk {
    type Response = u32;
    type Error = Broken;
    type Future = Work;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let mut state = self.state.lock().unwrap();
        if state.broken {
            return Poll::Ready(Err(Broken));
        }
        if !self.reserved {
            if state.free == 0 {
                return Poll::Pending;
            }
            state.free -= 1;
            self.reserved = true;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Work {
        assert!(
            std::mem::take(&mut self.reserved),
            "called before it was ready"
        );
        self.state().called.push(request);
        Work {
            state: Arc::clone(&self.state),
            request,
        }
    }
}

/// Work that has begun. Its slot is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    state: Arc<Mutex<State>>,
    request: u32,
}

impl Future for Work {
    type Output = Result<u32, Broken>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.state.lock().unwrap().answers.get(&self.request) {
            Some(answer) => Poll::Ready(*answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.state.lock().unwrap().free += 1;
    }
}
