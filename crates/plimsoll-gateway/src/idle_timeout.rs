//! A time-out between two parts of a stream.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Bounds the time until the next part of a stream. The timer is created when the stream first has to be waited for.
#[derive(Debug)]
pub(crate) struct IdleTimeout {
    longest: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl IdleTimeout {
    pub(crate) const fn new(longest: Duration) -> Self {
        Self {
            longest,
            sleep: None,
            waits: false,
        }
    }

    /// Restarts the time at the next wait, because the next part has arrived.
    pub(crate) const fn reset(&mut self) {
        self.waits = false;
    }

    /// Polls the timer while the stream is pending. Ready when the wait has lasted too long.
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waits {
            self.waits = true;
            let end = Instant::now() + self.longest;
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(end),
                none => *none = Some(Box::pin(sleep_until(end))),
            }
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
