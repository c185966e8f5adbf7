//! Undoes the grants of callers that dropped their future.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A call to a store. If it is dropped before the store has answered, a task waits for the answer and undoes the grant,
/// so that a cancelled call is not charged.
#[must_use = "futures do nothing unless they are polled"]
pub(crate) struct UndoOnDrop<T: Send + 'static, U: Undo<T>> {
    question: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    undo: Option<U>,
    /// The runtime of that task; by default the runtime on which the call is dropped.
    runtime: Option<Handle>,
    begun: bool,
}

/// Undoes the grant of an answer.
pub(crate) trait Undo<T>: Unpin + Send + 'static {
    fn undo(self, answer: T) -> impl Future<Output = ()> + Send;
}

impl<T, F, R> Undo<T> for F
where
    F: FnOnce(T) -> R + Unpin + Send + 'static,
    R: Future<Output = ()> + Send,
{
    fn undo(self, answer: T) -> impl Future<Output = ()> + Send {
        self(answer)
    }
}

impl<T: Send + 'static, U: Undo<T>> UndoOnDrop<T, U> {
    pub(crate) fn new(question: impl Future<Output = T> + Send + 'static, undo: U) -> Self {
        Self::boxed(Box::pin(question), undo)
    }

    pub(crate) fn boxed(question: Pin<Box<dyn Future<Output = T> + Send>>, undo: U) -> Self {
        Self {
            question: Some(question),
            undo: Some(undo),
            runtime: None,
            begun: false,
        }
    }

    /// Sets the runtime on which a dropped call waits for its answer.
    pub(crate) fn on(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }
}

impl<T: Send + 'static, U: Undo<T>> Future for UndoOnDrop<T, U> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
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

impl<T: Send + 'static, U: Undo<T>> Drop for UndoOnDrop<T, U> {
    fn drop(&mut self) {
        let question = self.question.take().filter(|_| self.begun);
        let runtime = self.runtime.take().or_else(|| Handle::try_current().ok());
        let (Some(question), Some(undo), Some(runtime)) = (question, self.undo.take(), runtime)
        else {
            return;
        };
        runtime.spawn(async move { undo.undo(question.await).await });
    }
}
