use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tower_service::Service;

use crate::admit::Admit;
use crate::classify::{ByResult, Classify};
use crate::{LimitError, LimitFuture};

/// A service behind a limit. Made by [`LimitLayer`](crate::LimitLayer).
///
/// It is ready when the service behind it is: readiness takes nothing of the limit, and is not passed on to
/// clones. Who has to wait for the limit waits in the future of the call, and calls a clone of the service when its
/// turn has come; meanwhile nothing of the service behind is held.
#[derive(Debug)]
pub struct Limit<S, A, C = ByResult> {
    inner: S,
    admit: Arc<A>,
    classify: C,
}

impl<S, A, C> Limit<S, A, C> {
    pub(crate) const fn new(inner: S, admit: Arc<A>, classify: C) -> Self {
        Self {
            inner,
            admit,
            classify,
        }
    }

    /// The service behind the limit.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// The service behind the limit, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, A, C, Request> Service<Request> for Limit<S, A, C>
where
    S: Service<Request> + Clone,
    A: Admit<Request>,
    C: Classify<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = LimitError<S::Error>;
    type Future = LimitFuture<S, Request, C>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(LimitError::Service)
    }

    // Always: the future is then made where it is kept. To copy it right after it was written takes longer than the
    // decision.
    #[inline(always)]
    fn call(&mut self, mut request: Request) -> Self::Future {
        match self.admit.attempt(&request) {
            Some(permit) => {
                self.admit.granted(&mut request, &permit);
                let call = self.inner.call(request);
                LimitFuture::calling(call, permit, self.classify.clone())
            }
            None => self.call_refused(request),
        }
    }
}

impl<S: Clone, A, C: Clone> Limit<S, A, C> {
    /// Refused at first: it may still wait.
    #[inline(never)]
    fn call_refused<Request>(&mut self, mut request: Request) -> LimitFuture<S, Request, C>
    where
        S: Service<Request>,
        A: Admit<Request>,
    {
        let mut acquire = self.admit.acquire(&request);
        // Its place in the queue is that of the call. The waker of the task is stored when the future is polled.
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut acquire).poll(&mut cx) {
            Poll::Ready(Ok(permit)) => {
                self.admit.granted(&mut request, &permit);
                let call = self.inner.call(request);
                LimitFuture::calling(call, permit, self.classify.clone())
            }
            Poll::Ready(Err(denied)) => LimitFuture::refused(denied, self.classify.clone()),
            Poll::Pending => {
                // A clone is not ready. What this one has reserved is given up, or the call might wait for it.
                let service = self.inner.clone();
                self.inner = service.clone();
                let admit = Arc::clone(&self.admit);
                LimitFuture::waiting(acquire, admit, (service, request), self.classify.clone())
            }
        }
    }
}

/// A clone has the same limit.
impl<S: Clone, A, C: Clone> Clone for Limit<S, A, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            admit: Arc::clone(&self.admit),
            classify: self.classify.clone(),
        }
    }
}
