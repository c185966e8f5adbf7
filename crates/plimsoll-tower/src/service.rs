use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use plimsoll::{Denied, Permit};
use tower_service::Service;

use crate::admit::Admit;
use crate::classify::{ByResult, Classify};
use crate::future::{Stage, Waiting};
use crate::{LimitError, LimitFuture};

/// A service behind a limit. [`LimitLayer`](crate::LimitLayer) makes one.
///
/// The service is ready when the inner service is ready: `poll_ready` acquires nothing from the limit, and readiness is
/// not passed on to clones. Each call first asks the limit:
///
/// - A call that is granted at once calls the inner service at once.
/// - A call that must wait does so in its future. It calls a clone of the inner service when it is granted; while it waits it
///   holds no readiness of the inner service.
/// - A call that is refused resolves to [`LimitError::Denied`], and the inner service is not called.
///
/// The permit is returned when the inner future resolves or is dropped. All clones share the limit.
///
/// ```
/// use plimsoll::{Concurrency, Gate};
/// use plimsoll_tower::LimitLayer;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let gate = Gate::new(Concurrency::new(1));
/// let service = LimitLayer::new(gate.clone())
///     .layer(service_fn(async |number: u32| Ok::<_, std::io::Error>(number + 1)));
/// let other = service.clone();
/// assert_eq!(service.oneshot(1).await?, 2);
///
/// // A clone is the same limit.
/// let _held = gate.try_acquire(1).unwrap();
/// assert!(other.oneshot(1).await.is_err());
/// # Ok::<_, plimsoll_tower::LimitError<std::io::Error>>(()) }).unwrap();
/// ```
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

    /// Returns a reference to the inner service. Calls through it bypass the limit.
    ///
    /// ```
    /// use plimsoll::{Gate, TokenBucket};
    /// use plimsoll_tower::LimitLayer;
    /// use tower::Layer;
    ///
    /// let service = LimitLayer::new(Gate::new(TokenBucket::per_second(1))).layer("any service");
    /// assert_eq!(*service.inner(), "any service");
    /// assert_eq!(service.into_inner(), "any service");
    /// ```
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service without the limit. Clones of this service keep their limit.
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

    // Always inlined: the future is then built in place. Copying it right after it was written takes longer than the
    // decision. For the same reason the rare paths return the parts of the future instead of the future: the result of
    // a function is returned in memory, and so would be the future of calls that are granted at once.
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

/// The result of a call that was not granted at once.
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
        // The call takes its place in the queue now. The waker of the task is stored when the future is polled.
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut acquire).poll(&mut cx) {
            Poll::Ready(Ok(permit)) => {
                self.admit.granted(&mut request, &permit);
                Later::Called(self.inner.call(request), permit)
            }
            Poll::Ready(Err(denied)) => Later::Refused(denied),
            Poll::Pending => {
                // A clone is not ready. The readiness of this service is released, or the call might wait for it.
                let service = self.inner.clone();
                self.inner = service.clone();
                let admit = Arc::clone(&self.admit);
                Later::Waiting(Waiting::new(acquire, admit, service, request))
            }
        }
    }
}

/// A clone shares the limit.
impl<S: Clone, A, C: Clone> Clone for Limit<S, A, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            admit: Arc::clone(&self.admit),
            classify: self.classify.clone(),
        }
    }
}
