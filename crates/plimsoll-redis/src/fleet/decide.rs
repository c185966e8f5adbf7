use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::{Decision, RedisLimiter, StoreError};

/// Asks the store, and sees to it that whoever does not wait for the answer is not charged.
#[must_use = "futures do nothing unless they are polled"]
pub(crate) struct UndoOnDrop {
    limiter: RedisLimiter,
    key: Arc<[u8]>,
    question: Option<Question>,
    begun: bool,
}

type Question = Pin<Box<dyn Future<Output = Result<Decision, StoreError>> + Send>>;

impl UndoOnDrop {
    pub(crate) fn new(limiter: &RedisLimiter, key: &Arc<[u8]>, cost: u32) -> Self {
        let (asked, subject) = (limiter.clone(), Arc::clone(key));
        Self {
            limiter: limiter.clone(),
            key: Arc::clone(key),
            question: Some(Box::pin(async move { asked.decide(subject, cost).await })),
            begun: false,
        }
    }
}

impl Future for UndoOnDrop {
    type Output = Result<Decision, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.begun = true;
        let Some(question) = &mut self.question else {
            return Poll::Pending;
        };
        let answer = question.as_mut().poll(cx);
        if answer.is_ready() {
            self.question = None;
        }
        answer
    }
}

impl Drop for UndoOnDrop {
    fn drop(&mut self) {
        let question = self.question.take().filter(|_| self.begun);
        let (Some(question), Ok(runtime)) = (question, Handle::try_current()) else {
            return;
        };
        let (limiter, key) = (self.limiter.clone(), Arc::clone(&self.key));
        runtime.spawn(async move {
            // What is held by a lease goes back by itself.
            if let Ok(Decision::Granted(permit)) = question.await {
                let given_back = limiter.put_back(&key, permit.cost(), permit.taken());
                // Nobody is left to tell.
                let _ = given_back.await;
            }
        });
    }
}
