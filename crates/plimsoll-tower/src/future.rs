use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use plimsoll::{Acquire, Denied, Permit};
use tower_service::Service;

use crate::LimitError;
use crate::admit::OnGrant;
use crate::classify::Classify;

pin_project! {
    /// The future of a call of a [`Limit`](crate::Limit): waits for a permit if it must, then for the response of the service.
    ///
    /// The call takes its place in the queue when it is made, not at the first poll. Dropping the future while it waits
    /// leaves the queue and takes nothing; dropping it later cancels the call of the service and returns the permit.
    ///
    /// # Errors
    ///
    /// The future resolves to [`LimitError::Denied`] if the limit refuses the call, at once or when its wait ends, and to
    /// [`LimitError::Service`] if the service fails.
    ///
    /// # Panics
    ///
    /// May panic if it is polled again after it has resolved.
    ///
    /// ```
    /// use plimsoll::{Concurrency, Gate};
    /// use plimsoll_tower::LimitLayer;
    /// use tower::{Layer, Service, service_fn};
    ///
    /// let gate = Gate::new(Concurrency::new(1));
    /// let mut service = LimitLayer::new(gate.clone()).layer(service_fn(async |()| {
    ///     std::future::pending::<Result<(), std::io::Error>>().await
    /// }));
    ///
    /// // The permit is taken by the call, and returned when the future is dropped.
    /// let call = service.call(());
    /// assert_eq!(gate.snapshot().in_use(), 1);
    /// drop(call);
    /// assert_eq!(gate.snapshot().in_use(), 0);
    /// ```
    #[must_use = "futures do nothing unless they are polled"]
    pub struct LimitFuture<S, Request, C>
    where
        S: Service<Request>,
    {
        #[pin]
        stage: Stage<S, Request, S::Future>,
        classify: C,
    }
}

pin_project! {
    #[project = StageView]
    pub(crate) enum Stage<S, Request, F> {
        Calling {
            #[pin]
            call: F,
            // `None` if there is nothing to return.
            permit: Option<Permit<'static>>,
        },
        Waiting {
            waiting: Option<Box<Waiting<S, Request>>>,
        },
        Refused {
            denied: Option<Denied>,
        },
    }
}

/// A call that waits. Boxed, so that the future of calls that do not wait stays small.
pub(crate) struct Waiting<S, Request> {
    /// The wait in the queue; `None` after the grant, while the service is not ready.
    acquire: Option<Acquire<'static>>,
    admit: Arc<dyn OnGrant<Request>>,
    permit: Option<Permit<'static>>,
    service: S,
    /// `None` once the service has been called.
    request: Option<Request>,
}

impl<S: Service<Request>, Request, C> LimitFuture<S, Request, C> {
    #[inline(always)]
    pub(crate) fn new(stage: Stage<S, Request, S::Future>, classify: C) -> Self {
        Self { stage, classify }
    }
}

impl<S, Request, F> Stage<S, Request, F> {
    #[inline(always)]
    pub(crate) fn calling(call: F, permit: Permit<'static>) -> Self {
        let permit = permit.gives_back().then_some(permit);
        Self::Calling { call, permit }
    }

    pub(crate) fn waiting(waiting: Box<Waiting<S, Request>>) -> Self {
        let waiting = Some(waiting);
        Self::Waiting { waiting }
    }

    pub(crate) fn refused(denied: Denied) -> Self {
        let denied = Some(denied);
        Self::Refused { denied }
    }
}

impl<S, Request> Waiting<S, Request> {
    pub(crate) fn new(
        acquire: Acquire<'static>,
        admit: Arc<dyn OnGrant<Request>>,
        service: S,
        request: Request,
    ) -> Box<Self> {
        Box::new(Self {
            acquire: Some(acquire),
            admit,
            permit: None,
            service,
            request: Some(request),
        })
    }
}

impl<S, Request, C> Future for LimitFuture<S, Request, C>
where
    S: Service<Request>,
    C: Classify<S::Response, S::Error>,
{
    type Output = Result<S::Response, LimitError<S::Error>>;

    // Always inlined, as the call is: the result is usually the response, which has room for a refusal.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        if let StageView::Calling { call, permit } = this.stage.project() {
            let result = ready!(call.poll(cx));
            // In place: moving it takes longer than returning it.
            if let Some(permit) = permit {
                permit.give_back(this.classify.classify(result.as_ref()));
            }
            return Poll::Ready(result.map_err(LimitError::Service));
        }
        self.poll_long(cx)
    }
}

impl<S, Request, C> LimitFuture<S, Request, C>
where
    S: Service<Request>,
    C: Classify<S::Response, S::Error>,
{
    /// Polls a call that is refused or waits.
    #[inline(never)]
    fn poll_long(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, LimitError<S::Error>>> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageView::Calling { call, permit } => {
                    let result = ready!(call.poll(cx));
                    if let Some(permit) = permit {
                        permit.give_back(this.classify.classify(result.as_ref()));
                    }
                    return Poll::Ready(result.map_err(LimitError::Service));
                }
                StageView::Waiting { waiting } => {
                    let Some(here) = waiting else {
                        unreachable!("a future is not polled after it is done")
                    };
                    let (call, permit) = match ready!(here.poll(cx)) {
                        Ok(called) => called,
                        Err(error) => {
                            *waiting = None;
                            return Poll::Ready(Err(error));
                        }
                    };
                    Stage::Calling { call, permit }
                }
                StageView::Refused { denied } => {
                    let Some(denied) = denied.take() else {
                        unreachable!("a future is not polled after it is done")
                    };
                    return Poll::Ready(Err(LimitError::Denied(denied)));
                }
            };
            this.stage.set(next);
        }
    }
}

/// The call of a service, and the permit that it holds.
type Called<S, R> = Result<
    (<S as Service<R>>::Future, Option<Permit<'static>>),
    LimitError<<S as Service<R>>::Error>,
>;

impl<S: Service<Request>, Request> Waiting<S, Request> {
    /// Waits for its turn, then until the service is ready, and calls it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Called<S, Request>> {
        if let Some(acquire) = &mut self.acquire {
            match ready!(Pin::new(acquire).poll(cx)) {
                Ok(permit) => self.permit = Some(permit),
                Err(denied) => return Poll::Ready(Err(LimitError::Denied(denied))),
            }
            self.acquire = None;
        }
        ready!(self.service.poll_ready(cx)).map_err(LimitError::Service)?;
        let Some(mut request) = self.request.take() else {
            unreachable!("it is called once")
        };
        if let Some(permit) = &self.permit {
            self.admit.granted(&mut request, permit);
        }
        let call = self.service.call(request);
        Poll::Ready(Ok((call, self.permit.take())))
    }
}

/// If the service is never called, the grant is undone.
impl<S, Request> Drop for Waiting<S, Request> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.undo();
        }
    }
}

impl<S: Service<Request>, Request, C> fmt::Debug for LimitFuture<S, Request, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitFuture").finish_non_exhaustive()
    }
}
