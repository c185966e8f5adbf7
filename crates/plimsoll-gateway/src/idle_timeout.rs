//! Waiting for something that may never come.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How long the next part of something may take. There is no timer until it is waited for.
#[derive(Debug)]
pub(crate) struct Patience {
    longest: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl Patience {
    pub(crate) const fn new(longest: Duration) -> Self {
        Self {
            longest,
            sleep: None,
            waits: false,
        }
    }

    /// It has come.
    pub(crate) const fn came(&mut self) {
        self.waits = false;
    }

    /// It has not come. Ready if it has been waited for too long.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
