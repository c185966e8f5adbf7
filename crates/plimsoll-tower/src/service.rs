use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use plimsoll::{Denied, Permit};
use tower_service::Service;

use crate::admit::Admit;
use crate::classify::{ByResult, Classify};
use crate::future::{Stage, Waiting};
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
    // decision. For the same reason what is rare returns what the future is made of, and not the future: what is returned
    // by a function lies in memory, and so would the future of those that are granted at once.
    #[inline(always)]
    fn call(&mut self, mut request: Request) -> Self::Future {
        let stage = match self.admit.attempt(&request) {
            Some(permit) => {
                self.admit.granted(&mut request, &permit);
                Stage::calling(self.inner.call(request), permit)
            }
            None => match self.call_refused(request) {
                Later::Called(call, permit) => Stage::calling(call, permit),
                Later::Waiting(waiting) => Stage::waiting(waiting),
                Later::Refused(denied) => Stage::refused(denied),
            },
        };
        LimitFuture::new(stage, self.classify.clone())
    }
}

/// What has become of a call that was not granted at once.
enum Later<F, W> {
    Called(F, Permit<'static>),
    Waiting(W),
    Refused(Denied),
}

impl<S: Clone, A, C> Limit<S, A, C> {
    /// Refused at first: it may still wait.
    #[inline(never)]
    fn call_refused<Request>(
        &mut self,
        mut request: Request,
    ) -> Later<S::Future, Box<Waiting<S, Request>>>
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
                Later::Called(self.inner.call(request), permit)
            }
            Poll::Ready(Err(denied)) => Later::Refused(denied),
            Poll::Pending => {
                // A clone is not ready. What this one has reserved is given up, or the call might wait for it.
                let service = self.inner.clone();
                self.inner = service.clone();
                let admit = Arc::clone(&self.admit);
                Later::Waiting(Waiting::new(acquire, admit, service, request))
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
